// For tests/oracle/check_chat_templates.py: reads a JSON list of {"template", "variables"} and prints the result of
// each as a line of JSON: a text, or {"error": message}.
#include <cstdio>

#include "base/file.h"
#include "worker/text/jinja_run.h"

int main(int count, char** arguments) {
  using namespace zerofleet;
  if (count != 2) return 2;
  const auto text = ReadSmallFile(arguments[1], int64_t{1} << 30);
  if (!text.ok()) return 3;
  const auto cases = nlohmann::ordered_json::parse(*text);
  for (const auto& one : cases) {
    const auto body = text::jinja::Template::Parse(one["template"].get<std::string>());
    text::jinja::Value::Dict variables;
    for (const auto& [name, value] : one["variables"].items()) {
      variables.emplace_back(name, text::jinja::Value::Of(value));
    }
    const auto printed = body.ok() ? body->Render(variables, /*now=*/0) : body.status();
    const nlohmann::ordered_json line =
        printed.ok() ? nlohmann::ordered_json(*printed)
                     : nlohmann::ordered_json{{"error", std::string(printed.status().message())}};
    std::printf("%s\n", DumpJson(line).c_str());
  }
  return 0;
}
