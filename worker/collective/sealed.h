// Bytes that travel through other hands and must arrive whole: a magic number, their length and their digest go before
// them. For collective addresses, which libraries trust and may crash on.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_SEALED_H_
#define ZEROFLEET_WORKER_COLLECTIVE_SEALED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace zerofleet {

inline constexpr size_t kMagicBytes = 8;
inline constexpr size_t kSealedLimitBytes = 64 << 10;

// magic (kMagicBytes), length (u32), XXH3-64 of the bytes (u64), the bytes; little-endian.
std::string Seal(std::string_view magic, std::string_view bytes);

// The bytes within `sealed`, at least one and at most kSealedLimitBytes; InvalidArgument, saying how, when it is not
// what Seal made of them with this magic number.
absl::StatusOr<std::string> Unseal(std::string_view magic, std::string_view sealed);

void AppendLittleEndian(std::string& to, uint64_t value, int bytes);
// Of the first `bytes` characters, which must be there.
uint64_t ReadLittleEndian(std::string_view from, int bytes);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_SEALED_H_
