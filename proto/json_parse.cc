// simdjson reads the text, and what it allows, such as repeated keys, is refused while the value is built. What it does
// not read, such as numbers beyond 64 bits, and errors, whose places it does not tell, are left to the slower library.
#include "proto/json_parse.h"

#include <simdjson.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet {
namespace {

using nlohmann::json;

// Builds the value; stops at the first error and keeps its text.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  StrictBuilder(int max_depth, int64_t max_keys) : max_depth_(max_depth), max_keys_(max_keys) {}
  const std::string& error() const { return error_; }
  json Take() { return std::move(root_); }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t&) override { return Put(value); }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t) override { return Enter(json::object()); }
  bool start_array(size_t) override { return Enter(json::array()); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (++keys_seen_ > max_keys_) return Fail(absl::StrCat("more than ", max_keys_, " keys"));
    const auto [place, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
    if (!is_new) return Fail(absl::StrCat("key '", name, "' is duplicated"));
    place_ = &place->second;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& fault) override {
    // The library's error number for a value outside a double's range.
    constexpr int kNumberOverflow = 406;
    if (fault.id == kNumberOverflow) return Fail("a number is out of range");
    return Fail(absl::StrCat("not valid JSON at byte ", position));
  }

 private:
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool Put(json value) {
    if (!open_.empty() && open_.back()->is_array()) {
      place_ = &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
    } else {
      *place_ = std::move(value);
    }
    return true;
  }
  bool Enter(json empty) {
    if (static_cast<int>(open_.size()) == max_depth_) {
      return Fail(absl::StrCat("nested deeper than ", max_depth_, " levels"));
    }
    Put(std::move(empty));
    open_.push_back(place_);
    return true;
  }
  bool Leave() {
    open_.pop_back();
    return true;
  }

  const int max_depth_;
  const int64_t max_keys_;
  int64_t keys_seen_ = 0;
  json root_;
  json* place_ = &root_;     // the value that was put last; in an object, where the next value goes
  std::vector<json*> open_;  // open objects and arrays, outermost first; an array grows only as the innermost
  std::string error_;
};

bool Build(const simdjson::dom::element& element, StrictBuilder& builder);

bool BuildArray(const simdjson::dom::array& array, StrictBuilder& builder) {
  if (!builder.start_array(array.size())) return false;
  for (const simdjson::dom::element item : array) {
    if (!Build(item, builder)) return false;
  }
  return builder.end_array();
}

bool BuildObject(const simdjson::dom::object& object, StrictBuilder& builder) {
  if (!builder.start_object(object.size())) return false;
  for (const auto& [name, value] : object) {
    std::string key(name);
    if (!builder.key(key) || !Build(value, builder)) return false;
  }
  return builder.end_object();
}

// Tells `builder` what `element` holds. False once the builder has an error.
bool Build(const simdjson::dom::element& element, StrictBuilder& builder) {
  using simdjson::dom::element_type;
  std::string text;
  switch (element.type()) {
    case element_type::NULL_VALUE: return builder.null();
    case element_type::BOOL: return builder.boolean(bool(element));
    case element_type::UINT64: return builder.number_unsigned(uint64_t(element));
    case element_type::INT64: {
      const auto number = int64_t(element);
      return number < 0 ? builder.number_integer(number) : builder.number_unsigned(static_cast<uint64_t>(number));
    }
    case element_type::DOUBLE: return builder.number_float(double(element), text);
    case element_type::STRING: text = std::string_view(element); return builder.string(text);
    case element_type::ARRAY: return BuildArray(element, builder);
    case element_type::OBJECT: return BuildObject(element, builder);
  }
  return false;
}

// False if the library does not read `text`. Otherwise the builder has the value, or an error.
bool ReadFast(std::string_view text, StrictBuilder& builder) {
  // Many short texts are read, as the lines of a file: their parser keeps its memory.
  constexpr size_t kShort = size_t{1} << 20;
  static thread_local simdjson::dom::parser short_texts(kShort);
  simdjson::dom::parser long_text;
  simdjson::dom::parser& parser = text.size() <= kShort ? short_texts : long_text;
  const simdjson::padded_string padded(text);
  simdjson::dom::element root;
  if (padded.data() == nullptr || parser.parse(padded).get(root) != simdjson::SUCCESS) return false;
  return Build(root, builder) || !builder.error().empty();
}

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, int max_depth, int64_t max_keys) {
  // The library would take a NUL for the end of the text.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos)
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON at byte ", nul + 1));
  StrictBuilder builder(max_depth, max_keys);
  if (!ReadFast(text, builder)) json::sax_parse(text, &builder);
  if (!builder.error().empty()) return absl::InvalidArgumentError(builder.error());
  return builder.Take();
}

}  // namespace zerofleet
