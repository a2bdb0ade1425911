// Formatting of figures; see units.h.
#include "base/units.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "absl/strings/str_format.h"

namespace zerofleet {

std::string HumanBytes(int64_t bytes) {
  static constexpr const char* kSuffixes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int index = 0;
  while (std::abs(value) >= 1024 && index < 5) {
    value /= 1024;
    ++index;
  }
  if (index == 0) return absl::StrFormat("%d B", bytes);
  return absl::StrFormat("%.1f %s", value, kSuffixes[index]);
}

std::optional<int64_t> ParseBytes(const std::string& text) {
  constexpr double kMost = 1152921504606846976.0;  // 2^60
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const char* const known : {"KiB", "MiB", "GiB", "TiB"}) {
    value *= 1024;
    if (unit == known) return value >= 1 && value <= kMost ? std::optional(std::llround(value)) : std::nullopt;
  }
  return std::nullopt;
}

std::string HumanCount(double count) {
  static constexpr const char* kSuffixes[] = {"", "K", "M", "B", "T"};
  int index = 0;
  while (std::abs(count) >= 1000 && index < 4) {
    count /= 1000;
    ++index;
  }
  if (index == 0) return absl::StrFormat("%.0f", count);
  return absl::StrFormat("%.1f%s", count, kSuffixes[index]);
}

std::string CountText(int64_t count, const std::string& noun) {
  return absl::StrFormat("%d %s%s", count, noun, count == 1 ? "" : "s");
}

std::string HumanSeconds(double seconds) {
  if (seconds < 60) return absl::StrFormat("%.1fs", seconds);
  int64_t whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
}

}  // namespace zerofleet
