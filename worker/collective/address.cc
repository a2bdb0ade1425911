// Checks of an address. See address.h.
#include "worker/collective/address.h"

#include <xxhash.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::collective {
namespace {

uint64_t Digest(const std::string& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

std::string SealAddress(const v1::CollectiveAddress& address) {
  v1::SealedCollectiveAddress sealed;
  address.SerializeToString(sealed.mutable_address());
  sealed.set_digest(Digest(sealed.address()));
  return sealed.SerializeAsString();
}

absl::StatusOr<v1::CollectiveAddress> OpenAddress(std::string_view sealed) {
  v1::SealedCollectiveAddress message;
  v1::CollectiveAddress address;
  if (!message.ParseFromArray(sealed.data(), static_cast<int>(sealed.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("not a collective address (", sealed.size(), " bytes)"));
  }
  if (Digest(message.address()) != message.digest()) {
    return absl::InvalidArgumentError("a collective address does not match its digest");
  }
  if (!address.ParseFromString(message.address())) {
    return absl::InvalidArgumentError("a collective address is malformed");
  }
  for (const auto& [name, group] : address.groups()) {
    const size_t id_bytes = group.nccl_id().size();
    if (id_bytes == 0 || id_bytes == kNcclIdBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a collective address has an NCCL id of ", id_bytes, " bytes, not ", kNcclIdBytes));
  }
  return address;
}

absl::StatusOr<GroupAddresses> OpenGroupAddresses(const CollectiveGroup& group) {
  GroupAddresses addresses;
  for (int rank = 0; rank < group.size(); rank++) {
    const std::string where = absl::StrCat("collectives: group ", group.name, ", rank ", rank);
    absl::StatusOr<v1::CollectiveAddress> address = OpenAddress(group.addresses[rank]);
    if (!address.ok()) return Annotate(address.status(), where);
    const auto of_group = address->groups().find(group.name);
    if (of_group == address->groups().end()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": its address serves no group of that name"));
    }
    addresses.ranks.push_back(of_group->second);
    addresses.device_ids.push_back(address->device_id());
  }
  return addresses;
}

absl::Status NotServed(const CollectiveGroup& group) {
  return absl::InvalidArgumentError(
      absl::StrCat("collectives: this worker's endpoint was made without the group ", group.name));
}

absl::Status JoinedBefore(const CollectiveGroup& group) {
  return absl::FailedPreconditionError(
      absl::StrCat("collectives: this worker's endpoint has joined the group ", group.name, " before"));
}

std::optional<SharedDevice> FindSharedDevice(std::span<const std::string> device_ids) {
  std::map<std::string_view, int> first_on;
  for (size_t rank = 0; rank < device_ids.size(); rank++) {
    if (device_ids[rank].empty()) continue;  // a kind of device that ranks may share
    const auto [first, is_new] = first_on.emplace(device_ids[rank], static_cast<int>(rank));
    if (!is_new) return SharedDevice{first->second, static_cast<int>(rank), device_ids[rank]};
  }
  return std::nullopt;
}

}  // namespace zerofleet::collective
