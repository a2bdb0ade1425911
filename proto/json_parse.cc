// A first pass checks what the JSON library allows (depth, repeated keys), a second builds the value.
#include "proto/json_parse.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet {
namespace {

using nlohmann::json;

// Stops at the first error and keeps its text.
class StrictChecker : public nlohmann::json_sax<json> {
 public:
  StrictChecker(int max_depth, int64_t max_keys) : max_depth_(max_depth), max_keys_(max_keys) {}
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (++keys_seen_ > max_keys_) return Fail(absl::StrCat("more than ", max_keys_, " keys"));
    if (keys_.back().insert(name).second) return true;
    return Fail(absl::StrCat("key '", name, "' is duplicated"));
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& fault) override {
    // The library's number for a value outside a double's range.
    constexpr int kNumberOverflow = 406;
    if (fault.id == kNumberOverflow) return Fail("a number is out of range");
    return Fail(absl::StrCat("not valid JSON at byte ", position));
  }

 private:
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool Enter() {
    keys_.emplace_back();
    if (static_cast<int>(keys_.size()) <= max_depth_) return true;
    return Fail(absl::StrCat("nested deeper than ", max_depth_, " levels"));
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }

  const int max_depth_;
  const int64_t max_keys_;
  int64_t keys_seen_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // one set per open object or array
  std::string error_;
};

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, int max_depth, int64_t max_keys) {
  // The library takes one for the end of the text.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos)
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON at byte ", nul + 1));
  StrictChecker checker(max_depth, max_keys);
  if (!json::sax_parse(text, &checker)) return absl::InvalidArgumentError(checker.error());
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace zerofleet
