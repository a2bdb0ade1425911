// Figures as people read them: bytes, counts, durations, rates.
#ifndef ZEROFLEET_BASE_UNITS_H_
#define ZEROFLEET_BASE_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace zerofleet {

// 1536 -> "1.5 KiB"; binary multiples, as allocators and page tables count.
std::string HumanBytes(int64_t bytes);

// "4GiB" -> 4294967296, also "1.5 GiB"; KiB, MiB, GiB and TiB. Nothing if it is not a size of 1 byte to 1 EiB.
std::optional<int64_t> ParseBytes(const std::string& text);

// 124439808 -> "124.4M"; decimal multiples, as parameters and tokens are counted.
std::string HumanCount(double count);

// (1, "file") -> "1 file", (2, "file") -> "2 files".
std::string CountText(int64_t count, const std::string& noun);

// 75.2 -> "1m15s", 3.21 -> "3.2s", 7384 -> "2h03m".
std::string HumanSeconds(double seconds);

// The smallest multiple of `unit` that is >= `value`; both non-negative, unit positive.
constexpr int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr int64_t RoundDown(int64_t value, int64_t unit) { return value / unit * unit; }
constexpr int64_t CeilDivide(int64_t value, int64_t by) { return (value + by - 1) / by; }

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_UNITS_H_
