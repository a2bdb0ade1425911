// The wire form of a UCX worker's address. A change of the form changes the magic number.
#include "worker/collective/ucx_address.h"

#include "worker/collective/sealed.h"

namespace zerofleet {
namespace {

constexpr std::string_view kUcxAddressMagic = "ZFUCX01\n";

}  // namespace

std::string WrapUcxAddress(std::string_view address) { return Seal(kUcxAddressMagic, address); }

absl::StatusOr<std::string> UnwrapUcxAddress(std::string_view wrapped) { return Unseal(kUcxAddressMagic, wrapped); }

}  // namespace zerofleet
