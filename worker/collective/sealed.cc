// See sealed.h.
#include "worker/collective/sealed.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace zerofleet {
namespace {

constexpr size_t kHeaderBytes = kMagicBytes + 4 + 8;

}  // namespace

void AppendLittleEndian(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) to.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadLittleEndian(std::string_view from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= static_cast<uint64_t>(static_cast<uint8_t>(from[i])) << (8 * i);
  return value;
}

std::string Seal(std::string_view magic, std::string_view bytes) {
  ZF_CHECK(magic.size() == kMagicBytes);
  std::string sealed(magic);
  AppendLittleEndian(sealed, bytes.size(), 4);
  AppendLittleEndian(sealed, XXH3_64bits(bytes.data(), bytes.size()), 8);
  sealed.append(bytes);
  return sealed;
}

absl::StatusOr<std::string> Unseal(std::string_view magic, std::string_view sealed) {
  if (sealed.size() < kHeaderBytes || sealed.substr(0, kMagicBytes) != magic) {
    return absl::InvalidArgumentError("not a collective address of this version and backend (magic number differs)");
  }
  const uint64_t length = ReadLittleEndian(sealed.substr(kMagicBytes), 4);
  const uint64_t digest = ReadLittleEndian(sealed.substr(kMagicBytes + 4), 8);
  const std::string_view bytes = sealed.substr(kHeaderBytes);
  if (length != bytes.size() || length == 0 || length > kSealedLimitBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a collective address holds ", bytes.size(), " bytes and announces ", length));
  }
  if (XXH3_64bits(bytes.data(), bytes.size()) != digest) {
    return absl::InvalidArgumentError("a collective address does not match its digest");
  }
  return std::string(bytes);
}

}  // namespace zerofleet
