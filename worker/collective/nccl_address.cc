// The wire form of a GPU worker's address. Changing the form changes the magic number.
#include "worker/collective/nccl_address.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/collective/sealed.h"

namespace zerofleet {
namespace {

constexpr std::string_view kNcclAddressMagic = "ZFNCC01\n";

absl::Status Short() { return absl::InvalidArgumentError("a collective address ends within one of its fields"); }

absl::StatusOr<std::string> TakeField(std::string_view& from) {
  if (from.size() < 4) return Short();
  const uint64_t length = ReadLittleEndian(from, 4);
  from.remove_prefix(4);
  if (length > from.size()) return Short();
  std::string field(from.substr(0, length));
  from.remove_prefix(length);
  return field;
}

void AppendField(std::string& to, std::string_view field) {
  AppendLittleEndian(to, field.size(), 4);
  to.append(field);
}

}  // namespace

std::string WrapNcclAddress(const NcclAddress& address) {
  ZF_CHECK(address.nccl_id.empty() || address.nccl_id.size() == kNcclIdBytes);
  std::string bytes;
  AppendField(bytes, address.nccl_id);
  AppendField(bytes, address.device_id);
  AppendField(bytes, address.host_address);
  return Seal(kNcclAddressMagic, bytes);
}

absl::StatusOr<NcclAddress> UnwrapNcclAddress(std::string_view wrapped) {
  ZF_ASSIGN_OR_RETURN(const std::string bytes, Unseal(kNcclAddressMagic, wrapped));
  std::string_view left = bytes;
  NcclAddress address;
  ZF_ASSIGN_OR_RETURN(address.nccl_id, TakeField(left));
  if (!address.nccl_id.empty() && address.nccl_id.size() != kNcclIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a collective address has an NCCL id of ", address.nccl_id.size(), " bytes, not ", kNcclIdBytes));
  }
  ZF_ASSIGN_OR_RETURN(address.device_id, TakeField(left));
  ZF_ASSIGN_OR_RETURN(address.host_address, TakeField(left));
  if (!left.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a collective address has ", left.size(), " bytes after its end"));
  }
  return address;
}

absl::StatusOr<std::vector<NcclAddress>> UnwrapNcclAddresses(std::span<const std::string> wrapped) {
  std::vector<NcclAddress> addresses;
  for (size_t rank = 0; rank < wrapped.size(); rank++) {
    absl::StatusOr<NcclAddress> address = UnwrapNcclAddress(wrapped[rank]);
    if (!address.ok()) return Annotate(address.status(), absl::StrCat("rank ", rank));
    addresses.push_back(*std::move(address));
  }
  return addresses;
}

std::optional<SharedDevice> FindSharedDevice(std::span<const NcclAddress> addresses) {
  std::map<std::string_view, int> first_on;
  for (size_t rank = 0; rank < addresses.size(); rank++) {
    const std::string& device_id = addresses[rank].device_id;
    if (device_id.empty()) continue;  // a kind of device that ranks may share
    const auto [first, is_new] = first_on.emplace(device_id, static_cast<int>(rank));
    if (!is_new) return SharedDevice{first->second, static_cast<int>(rank), device_id};
  }
  return std::nullopt;
}

}  // namespace zerofleet
