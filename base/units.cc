// Formatting of figures; see units.h.
#include "base/units.h"

#include <cmath>

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

std::string HumanSeconds(double seconds) {
  if (seconds < 60) return absl::StrFormat("%.1fs", seconds);
  int64_t whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
}

}  // namespace zerofleet
