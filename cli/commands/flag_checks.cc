// See flag_checks.h.
#include "cli/commands/flag_checks.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/cut_text.h"
#include "base/file.h"
#include "cli/config/utf8.h"

namespace zerofleet::cli {
namespace {

constexpr size_t kLongestQuoted = 60, kLongestName = 200;

std::string Refusal(const std::string& wanted, const std::string& value) {
  const std::string shown = CutText(value, kLongestQuoted);
  return absl::StrCat("must be ", wanted, ", got \"",
                      IsPlainText(shown) ? absl::Utf8SafeCHexEscape(shown) : absl::CHexEscape(shown),
                      value.size() > kLongestQuoted ? "..." : "", "\"");
}

}  // namespace

CLI::Validator PlainName() {
  return CLI::Validator(
      [](const std::string& value) {
        if (value.size() <= kLongestName && IsPlainText(value)) return std::string();
        return Refusal("at most 200 bytes of text without control characters", value);
      },
      "");
}

CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](const std::string& value) {
        uint64_t number = 0;
        const char* const end = value.data() + value.size();
        const auto [stop, error] = std::from_chars(value.data(), end, number);
        if (error == std::errc() && stop == end) return std::string();
        return Refusal("a whole number from 0 to 18446744073709551615", value);
      },
      "");
}

CLI::Validator InDirectory() {
  return CLI::Validator(
      [](const std::string& value) {
        if (IsDirectory(ParentOf(value))) return std::string();
        return Refusal("in a directory that is there", value);
      },
      "");
}

CLI::Validator NumberFrom(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& value) {
        double number = 0;
        if (absl::SimpleAtod(value, &number) && number >= least && number <= most) return std::string();
        return Refusal(absl::StrCat("a number from ", least, " to ", most), value);
      },
      absl::StrCat("FLOAT in [", least, " - ", most, "]"));
}

CLI::Option* Repeatable(CLI::Option* option) {
  return option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace zerofleet::cli
