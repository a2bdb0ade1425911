// Fuzzes the address of a GPU worker: any bytes as the whole address, and any bytes as the sealed content.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "worker/collective/nccl_address.h"
#include "worker/collective/sealed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& wrapped : {std::string(bytes), Seal("ZFNCC01\n", bytes)}) {
    absl::StatusOr<NcclAddress> address = UnwrapNcclAddress(wrapped);
    // There is only one way to write an address.
    if (address.ok()) ZF_CHECK(WrapNcclAddress(*address) == wrapped);
  }
  return 0;
}
