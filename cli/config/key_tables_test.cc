// The tables of keys in docs/configuration.md are made from the rows of the keys.
//
// A table stands between `<!-- keys: SECTION, ... -->` and `<!-- end of keys -->`; SECTION is a section or a key of the
// first level. With ZF_UPDATE_DOCS=1 the page is written again; read the difference before committing it.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "cli/config/keys.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kPage[] = "docs/configuration.md";
constexpr char kBegin[] = "<!-- keys: ", kBeginEnd[] = " -->\n", kEnd[] = "<!-- end of keys -->";

std::string Code(const std::string& text) { return absl::StrCat("`", text, "`"); }

std::string Words(const Key& key) {
  std::vector<std::string> words;
  for (const std::string& each : ChoicesOf(key)) words.push_back(Code(each));
  return absl::StrJoin(words, ", ");
}

std::string RangeOf(const Key& key) {
  const v1::KeyRow& row = *key.row;
  const bool is_number = key.field().cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  std::string text = is_number ? "number" : "integer";
  if (!HasRange(row)) return text;
  const std::string largest = NumberText(row.largest());
  absl::StrAppend(&text, row.or_zero() ? ", 0 or " : ", ");
  if (row.has_above()) {
    absl::StrAppend(&text, "> ", NumberText(row.above()), " and <= ", largest);
  } else {
    absl::StrAppend(&text, NumberText(row.smallest()), " to ", largest);
  }
  if (row.multiple_of() > 0) absl::StrAppend(&text, ", a multiple of ", row.multiple_of());
  if (row.kind() == v1::KeyRow::FRACTION) absl::StrAppend(&text, ", or `auto`");
  return text;
}

std::string Values(const Key& key) {
  if (key.field().is_repeated()) {
    if (key.row->kind() == v1::KeyRow::BATCHES) return "list of changes";
    if (key.field().cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "list of integers";
    if (key.row->kind() == v1::KeyRow::PLAIN) return "list of names";
    return key.row->kind() == v1::KeyRow::MIXTURE ? "list of paths, or a mixture" : "list of paths, or lists by name";
  }
  switch (key.row->kind()) {
    case v1::KeyRow::TEAM: return absl::StrCat("`auto`, or 1 to ", NumberText(key.row->largest()));
    case v1::KeyRow::SIZE: return "size, such as `4GiB`";
    case v1::KeyRow::PATH: return "path";
    default: break;
  }
  switch (key.field().cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return "boolean";
    case FieldDescriptor::CPPTYPE_STRING: return ChoicesOf(key).empty() ? "string" : Words(key);
    default: return RangeOf(key);
  }
}

std::string Default(const Key& key) {
  if (!key.row->otherwise().empty()) return key.row->otherwise();
  if (!key.row->value().empty()) return Code(key.row->value());
  return key.field().cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "`false`" : "none";
}

std::string Table(const std::vector<std::string>& sections) {
  std::string table = "| key | values | default | meaning |\n|---|---|---|---|\n";
  for (const std::string& section : sections) {
    bool found = false;
    for (const Key& key : Keys()) {
      if (key.name != section && !absl::StartsWith(key.name, section + ".")) continue;
      found = true;
      absl::StrAppend(&table, "| `", key.name, "` | ", Values(key), " | ", Default(key), " | ", key.row->text(),
                      " |\n");
    }
    EXPECT_TRUE(found) << kPage << " has a table of " << section << ", which is no section and no key";
  }
  return table;
}

std::string WithTables(const std::string& page) {
  std::string made;
  size_t at = 0;
  while (true) {
    const size_t begin = page.find(kBegin, at);
    if (begin == std::string::npos) return made + page.substr(at);
    const size_t names = begin + sizeof(kBegin) - 1, names_end = page.find(kBeginEnd, names);
    const size_t end = page.find(kEnd, names);
    if (names_end == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << kPage << ": a table without an end";
      return page;
    }
    const std::vector<std::string> sections = absl::StrSplit(page.substr(names, names_end - names), ", ");
    absl::StrAppend(&made, page.substr(at, names_end + sizeof(kBeginEnd) - 1 - at), Table(sections));
    at = end;
  }
}

TEST(KeyTables, AreWhatDocsHold) {
  const std::string page = ReadSmallFile(kPage, 1 << 20).value();
  const std::string wanted = WithTables(page);
  if (std::getenv("ZF_UPDATE_DOCS") != nullptr) {
    std::ofstream(kPage) << wanted;
    return;
  }
  EXPECT_EQ(page, wanted)
      << "write it again: ZF_UPDATE_DOCS=1 build/cli/config/config_test --gtest_filter='KeyTables.*'";
}

TEST(KeyTables, HoldEveryKeyOnce) {
  const std::string page = ReadSmallFile(kPage, 1 << 20).value();
  for (const Key& key : Keys()) {
    const std::string row = absl::StrCat("\n| `", key.name, "` |");
    const size_t first = page.find(row);
    EXPECT_NE(first, std::string::npos) << key.name << " is in no table of " << kPage;
    EXPECT_EQ(page.find(row, first + 1), std::string::npos) << key.name << " is in two tables of " << kPage;
  }
}

}  // namespace
}  // namespace zerofleet::cli
