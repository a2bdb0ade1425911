// A new backend is one row here.
#include "worker/collective/factory.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/collective/in_process.h"
#include "worker/collective/staged.h"
#include "worker/collective/ucx.h"
#ifdef ZEROFLEET_CUDA
#include "worker/collective/address.h"
#include "worker/collective/nccl.h"
#endif

namespace zerofleet::collective {
namespace {

using Groups = std::vector<std::string>;

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateHostEndpoint(const std::string& backend,
                                                                       const Groups& groups) {
  if (backend == "ucx") return UcxEndpoint::Create(groups);
  if (backend == "in_process") return CreateInProcessEndpoint();
  return absl::InvalidArgumentError("collectives: \"" + backend + "\" is not one of auto, ucx, nccl, in_process");
}

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateStagedEndpoint(const std::string& backend,
                                                                         device::Device& device, const Groups& groups) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveEndpoint> host, CreateHostEndpoint(backend, groups));
  return std::make_unique<StagedEndpoint>(device, std::move(host));
}

#ifdef ZEROFLEET_CUDA

// NCCL, or staged UCX where ranks share a GPU or one has no NCCL. Only all ranks' addresses together decide that, in
// the same way on every rank; so the address contains both.
class AutoEndpoint : public CollectiveEndpoint {
 public:
  static absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> Create(device::Device& device, const Groups& groups) {
    absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> nccl = NcclEndpoint::Create(device, {}, groups);
    v1::CollectiveAddress address;
    address.set_device_id(device.unique_id());
    std::string refusal;
    if (nccl.ok()) {
      ZF_ASSIGN_OR_RETURN(address, OpenAddress((*nccl)->address()));
    } else {
      refusal = std::string(nccl.status().message());
      nccl = nullptr;
    }
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveEndpoint> staged, CreateStagedEndpoint("ucx", device, groups));
    ZF_ASSIGN_OR_RETURN(const v1::CollectiveAddress host, OpenAddress(staged->address()));
    for (const auto& [name, group] : host.groups()) {
      (*address.mutable_groups())[name].set_ucx_worker(group.ucx_worker());
    }
    return std::unique_ptr<CollectiveEndpoint>(
        new AutoEndpoint(*std::move(nccl), std::move(staged), SealAddress(address), std::move(refusal)));
  }

  std::string backend() const override { return "auto"; }
  std::string address() const override { return address_; }
  std::string fallback_reason() const override { return fallback_reason_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override {
    ZF_RETURN_IF_ERROR(CheckGroup(group));
    ZF_ASSIGN_OR_RETURN(const GroupAddresses addresses, OpenGroupAddresses(group));
    fallback_reason_ = ReasonAgainstNccl(addresses, group.rank);
    if (!fallback_reason_.empty()) return staged_->Join(group);
    if (nccl_ == nullptr) return absl::InvalidArgumentError("these collective addresses are not this worker's");
    return nccl_->Join(group);
  }

 private:
  AutoEndpoint(std::unique_ptr<CollectiveEndpoint> nccl, std::unique_ptr<CollectiveEndpoint> staged,
               std::string address, std::string refusal)
      : nccl_(std::move(nccl)),
        staged_(std::move(staged)),
        address_(std::move(address)),
        refusal_(std::move(refusal)) {}

  // Why NCCL cannot be used; empty on every rank or on none.
  std::string ReasonAgainstNccl(const GroupAddresses& addresses, int rank) const {
    for (size_t peer = 0; peer < addresses.ranks.size(); peer++) {
      if (!addresses.ranks[peer].nccl_id().empty()) continue;
      return static_cast<int>(peer) == rank && !refusal_.empty() ? refusal_
                                                                 : absl::StrCat("rank ", peer, " has no NCCL");
    }
    const std::optional<SharedDevice> shared = FindSharedDevice(addresses.device_ids);
    if (!shared.has_value()) return "";
    return absl::StrCat("ranks ", shared->first, " and ", shared->second, " share GPU ", shared->device_id);
  }

  const std::unique_ptr<CollectiveEndpoint> nccl_;  // null where NCCL cannot be used
  const std::unique_ptr<CollectiveEndpoint> staged_;
  const std::string address_, refusal_;  // refusal_: why nccl_ is null
  std::string fallback_reason_;
};

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateNcclEndpoint(device::Device& device, const Groups& groups) {
  if (device.host_addressable()) {
    return absl::FailedPreconditionError("collectives: nccl moves GPU memory and this worker's device is " +
                                         device.kind() + "; use auto or ucx");
  }
  return NcclEndpoint::Create(device, {}, groups);
}

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateAutoEndpoint(device::Device& device, const Groups& groups) {
  if (device.host_addressable()) return UcxEndpoint::Create(groups, WithinNode::kSharedMemory);
  return AutoEndpoint::Create(device, groups);
}

#else

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateNcclEndpoint(device::Device&, const Groups&) {
  return absl::FailedPreconditionError("collectives: nccl needs a build with CUDA; use auto or ucx");
}

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateAutoEndpoint(device::Device& device, const Groups& groups) {
  if (device.host_addressable()) return UcxEndpoint::Create(groups, WithinNode::kSharedMemory);
  return CreateStagedEndpoint("ucx", device, groups);
}

#endif

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend,
                                                                             device::Device& device,
                                                                             const Groups& groups) {
  if (backend == "nccl") return CreateNcclEndpoint(device, groups);
  if (backend == "auto") return CreateAutoEndpoint(device, groups);
  return device.host_addressable() ? CreateHostEndpoint(backend, groups)
                                   : CreateStagedEndpoint(backend, device, groups);
}

}  // namespace zerofleet::collective
