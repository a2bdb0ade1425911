// Chat templates compared with what jinja2 3.1 prints when set up as in transformers; expressions, white space, limits
// and errors.
#include "worker/text/jinja_run.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace zerofleet::text::jinja {
namespace {

absl::StatusOr<std::string> Rendered(const std::string& source, const std::string& variables = "{}",
                                     const Limits& limits = {}) {
  const absl::StatusOr<Template> body = Template::Parse(source);
  if (!body.ok()) return body.status();
  const Value values = Value::Of(nlohmann::ordered_json::parse(variables));
  return body->Render(*values.dict(), /*now=*/0, limits);
}

void ExpectText(const std::string& source, const std::string& want, const std::string& variables = "{}") {
  const auto text = Rendered(source, variables);
  ASSERT_TRUE(text.ok()) << source << ": " << text.status();
  EXPECT_EQ(*text, want) << source;
}

void ExpectRefused(const std::string& source, const std::string& why, const Limits& limits = {}) {
  const auto text = Rendered(source, "{\"x\": [1, 2, 3]}", limits);
  ASSERT_FALSE(text.ok()) << source;
  EXPECT_NE(text.status().message().find(why), std::string::npos) << source << ": " << text.status();
}

TEST(JinjaTest, BlanksGoAsTransformersHasIt) {
  ExpectText("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc");
  ExpectText("a  {%- if true -%}  b  {%- endif -%}  c", "abc");
  ExpectText("a  {{- 'b' -}}  c {# not shown #} d", "abc  d");
  ExpectText("a\n  {%+ if true %}b{% endif +%}\nc", "a\n  b\nc");
}

TEST(JinjaTest, OperatorsBindAsInPython) {
  ExpectText("{{ 1 + 2 * 3 ** 2 - -1 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1 ~ 2 * 3 }}",
             "20 3 -4 2 3.5 16");
  ExpectText("{{ not 1 == 2 and 3 < 4 <= 4 or false }} {{ 'b' in 'abc' }} {{ 4 not in [1, 2] }}", "True True True");
  ExpectText("{{ 'a' if false else 'b' }}{{ 'c' if false }} {{ -1 | abs }} {{ '%s' }}", "b 1 %s");
  ExpectText("{{ x is defined }} {{ x is not none }} {{ none is none }} {{ 'a' is string and 1 is number }}",
             "False True True True");
}

TEST(JinjaTest, ValuesPrintAsInPython) {
  ExpectText("{{ [1, 'a', none, true, 1.5, {'k': \"it's\"}] }}", "[1, 'a', None, True, 1.5, {'k': \"it's\"}]");
  ExpectText("{{ x | tojson }}", R"({"b": [1, 2.5, null, true], "a": "ü\"\n"})",
             R"({"x": {"b": [1, 2.5, null, true], "a": "ü\"\n"}})");
  ExpectText("{{ x | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}",
             R"({"x": {"a": [1], "b": {}}})");
}

TEST(JinjaTest, SlicesAreCharacters) {
  ExpectText("{{ 'äöü'[1:] }}{{ 'abc'[::-1] }}{{ 'abcdef'[-2:0:-2] }}{{ [1,2,3][-1] }}{{ 'äö'[1] }}", "öücbaec3ö");
  ExpectText("{{ ('a', 'b')[5] is defined }}{{ 'äöü' | length }}", "False3");
}

TEST(JinjaTest, LoopsHaveTheirOwnScope) {
  ExpectText(
      "{% set x = 1 %}{% for i in [1, 2, 3] if i != 2 %}{% set x = i %}{{ loop.index }}/{{ loop.length }}"
      "{{ ',' if not loop.last }}{% endfor %} {{ x }}",
      "1/2,2/2 1");
  ExpectText(
      "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}"
      "{% break %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
      "5");
  ExpectText("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}", "a1b2");
  ExpectText("{% for x in [] %}{% else %}none{% endfor %}", "none");
}

TEST(JinjaTest, MacrosTakeArguments) {
  ExpectText(
      "{% macro m(a, b='x') %}[{{ a }}{{ b }}{{ seen }}]{% endmacro %}{% set seen = '!' %}{{ m(1) }}{{ m(b=2, a=3) }}",
      "[1x!][32!]");
  ExpectText("{% set text %}a{{ 1 }}{% endset %}{{ text | upper }}", "A1");
}

TEST(JinjaTest, FiltersAndMethods) {
  ExpectText(
      "{{ ' a b ' | trim }}|{{ 'x,y,z'.split(',', 1) | join(';') }}|{{ 'a  b'.split()[1] }}|{{ 'xxa'.lstrip('x') }}",
      "a b|x;y,z|b|a");
  ExpectText(
      "{{ x | selectattr('t', 'equalto', 1) | map(attribute='n') | list }}{{ x | rejectattr('t') | list | length }}",
      "['a']1", R"({"x": [{"t": 1, "n": "a"}, {"t": 0, "n": "b"}]})");
  ExpectText(
      "{{ y | default('d') }}{{ '' | default('e', true) }}{{ 'abcabc'.replace('b', 'X', 1) }}{{ 'ß ü' | upper }}",
      "deaXcabcSS Ü");
  ExpectText(
      "{{ [3, 1, 2] | sort | first }}{{ 'a-b'.title() }}{{ {'b': 1, 'a': 2} | dictsort }}{{ 'x'.startswith(('y', 'x')) "
      "}}",
      "1A-B[['a', 2], ['b', 1]]True");
}

TEST(JinjaTest, FunctionsAreDefined) {
  ExpectText("{{ strftime_now is defined }} {{ range is undefined }} {{ nothing is defined }}", "True False False");
}

TEST(JinjaTest, FaultsNameTheirLine) {
  ExpectRefused("a\n{{ raise_exception('no ' ~ x[0]) }}", "line 2: the template says: no 1");
  ExpectRefused("\n\n{% include 'x' %}", "line 3: {% include %} is not supported");
  ExpectRefused("{{ x | sum }}", "line 1: the filter \"sum\" is not supported");
  ExpectRefused("{{ y.z }}", "line 1: \"z\" is asked of what is undefined");
  ExpectRefused("{% if x %}", "lacks its endif");
  ExpectRefused("{{ x ", "does not end");
  ExpectRefused("{{ 'a' + 1 }}", "is not for str and int");
}

TEST(JinjaTest, EverythingIsBounded) {
  const std::string loop = "{% for i in range(9999) %}";
  ExpectRefused(loop + loop + loop + "{% endfor %}{% endfor %}{% endfor %}", "steps", {.steps = 10000});
  ExpectRefused(loop + "{% endfor %}", "steps", {.steps = 20});
  ExpectRefused(loop + "aaaaaaaaaa{% endfor %}", "prints more", {.output_bytes = 1000});
  const std::string twice = "{% set n = namespace(v='aaaaaaaa') %}{% for i in range(60) %}{% set n.v = ";
  ExpectRefused(twice + "n.v ~ n.v %}{% endfor %}", "too large");
  ExpectRefused(twice + "[n.v, n.v] %}{% endfor %}{{ n.v }}", "too large");
  ExpectRefused("{% set n = namespace(v=1) %}" + loop + "{% set n.v = [n.v] %}{% endfor %}", "too deeply");
  ExpectRefused("{% set n = namespace(v=1) %}{% set n.v = [n] %}", "namespace");
  ExpectRefused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deeply");
  ExpectRefused("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}", "too deeply");
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  ExpectRefused(sum + " }}", "too deeply");
  ExpectRefused("{{ 'a' * 99999999 }}", "too large");
}

}  // namespace
}  // namespace zerofleet::text::jinja
