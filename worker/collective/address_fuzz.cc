// Fuzzes a worker's address: any bytes as the sealed address, and any bytes as the content under a valid seal.
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "worker/collective/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet;
  using namespace zerofleet::collective;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  v1::SealedCollectiveAddress sealed;
  sealed.set_address(data, size);
  sealed.set_digest(XXH3_64bits(data, size));
  for (const std::string& given : {std::string(bytes), sealed.SerializeAsString()}) {
    const absl::StatusOr<v1::CollectiveAddress> address = OpenAddress(given);
    // An accepted address is accepted again when it is sealed again.
    if (address.ok()) ZF_CHECK(OpenAddress(SealAddress(*address)).ok());
    OpenGroupAddresses({.name = "data", .rank = 0, .addresses = {given, given}}).status().IgnoreError();
  }
  return 0;
}
