// Decimals by hand, so that 0.7 is seven tenths; see mixture_weights.h.
#include "cli/config/mixture_weights.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::cli {
namespace {

constexpr int kWeightDecimals = 6;
constexpr int64_t kLargestWeight = 1'000'000'000;

// The decimal number `text` in millionths; -1 for other text.
int64_t Millionths(const std::string& text) {
  int64_t value = 0;
  int digits = 0, decimals = -1;
  for (const char c : text) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (absl::ascii_isdigit(c)) {
      value = 10 * value + (c - '0');
      ++digits;
      decimals += decimals >= 0;
    } else {
      return -1;
    }
    if (decimals > kWeightDecimals || value > kLargestWeight * 1'000'000) return -1;
  }
  if (digits == 0) return -1;
  for (int i = std::max(decimals, 0); i < kWeightDecimals; ++i) value *= 10;
  return value > kLargestWeight * 1'000'000 ? -1 : value;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> IntegerWeights(const std::vector<std::string>& weights) {
  std::vector<int64_t> integers;
  int64_t divisor = 0;
  for (const std::string& text : weights) {
    const int64_t value = Millionths(text);
    if (value <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a weight must be a number above 0 such as 7 or 0.7, with at most ", kWeightDecimals,
                       " decimals, got \"", absl::CHexEscape(text.substr(0, 60)), "\""));
    }
    divisor = std::gcd(divisor, value);
    integers.push_back(value);
  }
  for (int64_t& value : integers) value /= divisor;
  return integers;
}

}  // namespace zerofleet::cli
