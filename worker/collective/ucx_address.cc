// The wire form of a UCX worker's address. A change of the form changes the magic number.
#include "worker/collective/ucx_address.h"

#include <xxhash.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace zerofleet {
namespace {

constexpr std::string_view kMagic = "ZFUCX01\n";
constexpr size_t kHeaderBytes = kMagic.size() + 4 + 8;
constexpr size_t kLimitBytes = 64 << 10;  // UCX addresses are some hundred bytes to a few thousand

void AppendLittleEndian(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) to.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadLittleEndian(std::string_view from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= static_cast<uint64_t>(static_cast<uint8_t>(from[i])) << (8 * i);
  return value;
}

}  // namespace

std::string WrapUcxAddress(std::string_view address) {
  std::string wrapped(kMagic);
  AppendLittleEndian(wrapped, address.size(), 4);
  AppendLittleEndian(wrapped, XXH3_64bits(address.data(), address.size()), 8);
  wrapped.append(address);
  return wrapped;
}

absl::StatusOr<std::string> UnwrapUcxAddress(std::string_view wrapped) {
  if (wrapped.size() < kHeaderBytes || wrapped.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a collective address of this version (magic number differs)");
  }
  const uint64_t length = ReadLittleEndian(wrapped.substr(kMagic.size()), 4);
  const uint64_t digest = ReadLittleEndian(wrapped.substr(kMagic.size() + 4), 8);
  const std::string_view address = wrapped.substr(kHeaderBytes);
  if (length != address.size() || length == 0 || length > kLimitBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a collective address holds ", address.size(), " bytes and announces ", length));
  }
  if (XXH3_64bits(address.data(), address.size()) != digest) {
    return absl::InvalidArgumentError("a collective address does not match its digest");
  }
  return std::string(address);
}

}  // namespace zerofleet
