// How a message is cut into rounds, and the copies around the inner operations. See staged.h.
#include "worker/collective/staged.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet::collective {
namespace {

// One round of a message of `count` elements: at most `limit` elements of every rank's part, from element `begin` of
// the part on. In the staging buffer the pieces are contiguous, as ShardRange splits total() elements: all pieces are
// width_ long but those of the last parts, since the parts together are fewer than `size` elements shorter than if all
// were as long as the first.
class Round {
 public:
  Round(int64_t count, int size, int64_t begin, int64_t limit)
      : count_(count), size_(size), begin_(begin), width_(std::min(limit, ShardRange(count, size, 0).size() - begin)) {
    for (int rank = 0; rank < size; rank++) total_ += InMessage(rank).size();
  }

  // The place in the message of the piece of `rank`.
  Range InMessage(int rank) const { return Within(ShardRange(count_, size_, rank), begin_, width_); }
  // Its place in the staging buffer.
  Range InStaging(int rank) const { return ShardRange(total_, size_, rank); }
  int64_t total() const { return total_; }

 private:
  const int64_t count_;
  const int size_;
  const int64_t begin_, width_;
  int64_t total_ = 0;
};

class StagedCommunicator : public Communicator {
 public:
  StagedCommunicator(device::Device& device, std::unique_ptr<device::Stream> stream,
                     std::unique_ptr<device::Reservation> staging, std::unique_ptr<Communicator> inner)
      : Communicator(inner->group(), inner->topology()),
        device_(device),
        stream_(std::move(stream)),
        reservation_(std::move(staging)),
        staging_(reservation_->data()),
        inner_(std::move(inner)) {
    // The outer operation continues only when the inner one has ended, so the two threads never count at the same time.
    inner_->SetObserver([this](const CollectiveRecord& record) { CountSent(record.traffic); });
    StartThread();
  }
  ~StagedCommunicator() override { StopThread(); }

  std::string backend() const override { return inner_->backend(); }

 protected:
  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override;
  absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                const SumChain& chain) override;

  // A staged operation waits for its peers in the inner communicator, so an abort is passed on to that.
  void Wake() override {
    if (is_aborted()) inner_->Abort(aborted());
  }

 private:
  // The most elements per piece, where a round takes `bytes_per_element` bytes of the buffer for each; even, so that
  // what follows the pieces is aligned for every type.
  int64_t Limit(int64_t bytes_per_element) const {
    const int64_t limit = reservation_->bytes() / bytes_per_element / 2 * 2;
    ZF_CHECK(limit > 0);
    return limit;
  }

  // Calls body(round) for every round of a message of `count` elements.
  template <class Body>
  absl::Status ForRounds(int64_t count, int64_t bytes_per_element, const Body& body) {
    const int64_t limit = Limit(bytes_per_element);
    const int64_t longest = ShardRange(count, size(), 0).size();
    for (int64_t begin = 0; begin < longest; begin += limit) {
      ZF_RETURN_IF_ERROR(body(Round(count, size(), begin, limit)));
    }
    return absl::OkStatus();
  }

  // These copy the piece of `rank` between `message` and the staging buffer.
  void ToStaging(const Round& round, int rank, const std::byte* message, int64_t element_bytes) {
    Copy(staging_ + round.InStaging(rank).begin * element_bytes, message + round.InMessage(rank).begin * element_bytes,
         round.InMessage(rank).size() * element_bytes);
  }
  void FromStaging(const Round& round, int rank, std::byte* message, int64_t element_bytes) {
    Copy(message + round.InMessage(rank).begin * element_bytes, staging_ + round.InStaging(rank).begin * element_bytes,
         round.InMessage(rank).size() * element_bytes);
  }

  void Copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0 && to != from) device_.Copy(*stream_, to, from, bytes);
  }
  // The stream holds only copies whose inputs are there, so it finishes soon. Returning early on an abort would hand
  // back buffers that are still being copied.
  absl::Status FinishCopies() { return stream_->Synchronize(); }

  Pending PostInnerGather(int64_t count, int64_t element_bytes) {
    if (element_bytes == 1) return inner_->AllGatherBytes(nullptr, staging_, count / size(), kUnit);
    return inner_->AllGather({}, {staging_, element_bytes == 4 ? device::DType::kF32 : device::DType::kBF16}, count,
                             kUnit);
  }

  static constexpr const char* kUnit = "staged";  // traffic is reported by this communicator, not by the inner one

  device::Device& device_;
  const std::unique_ptr<device::Stream> stream_;
  const std::unique_ptr<device::Reservation> reservation_;
  std::byte* const staging_;
  const std::unique_ptr<Communicator> inner_;  // declared after the buffer that it works on
};

absl::Status StagedCommunicator::RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) {
  std::byte* out = static_cast<std::byte*>(full);
  const Range mine = ShardRange(count, size(), rank());
  if (shard != nullptr) Copy(out + mine.begin * element_bytes, shard, mine.size() * element_bytes);
  if (size() == 1) return FinishCopies();
  return ForRounds(count, size() * element_bytes, [&](const Round& round) {
    ToStaging(round, rank(), out, element_bytes);
    ZF_RETURN_IF_ERROR(FinishCopies());
    ZF_RETURN_IF_ERROR(PostInnerGather(round.total(), element_bytes).Wait());
    for (int peer = 0; peer < size(); peer++) {
      if (peer != rank()) FromStaging(round, peer, out, element_bytes);
    }
    return FinishCopies();
  });
}

absl::Status StagedCommunicator::RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                                  const SumChain& chain) {
  const int64_t full_bytes = device::DTypeBytes(full.dtype), shard_bytes = device::DTypeBytes(shard.dtype);
  if (size() == 1 && full.dtype == shard.dtype && chain.initial == nullptr) {
    Copy(shard.data, full.data, count * full_bytes);
    return FinishCopies();
  }
  // The sum is placed behind the pieces: in a wider type it would not fit where a piece was.
  const int64_t bytes_per_element = size() * full_bytes + shard_bytes;
  std::byte* const sum = staging_ + Limit(bytes_per_element) * size() * full_bytes;
  std::byte* to = static_cast<std::byte*>(shard.data);
  const float* initial = chain.initial;
  return ForRounds(count, bytes_per_element, [&](const Round& round) {
    for (int part = 0; part < size(); part++) {
      ToStaging(round, part, static_cast<const std::byte*>(full.data), full_bytes);
    }
    const int64_t mine = round.InMessage(rank()).size(), bytes = mine * shard_bytes;
    SumChain staged = chain;
    if (initial != nullptr) {
      // The initial values are staged where the sum will be written: both are fp32.
      Copy(sum, initial, bytes);
      staged.initial = reinterpret_cast<const float*>(sum);
      initial += mine;
    }
    ZF_RETURN_IF_ERROR(FinishCopies());
    ZF_RETURN_IF_ERROR(
        inner_->ReduceScatter({staging_, full.dtype}, {sum, shard.dtype}, round.total(), kUnit, nullptr, staged)
            .Wait());
    // A narrower sum may be copied to this rank's place inside `full`: it ends before the pieces that are still to be
    // read.
    Copy(to, sum, bytes);
    to += bytes;
    return FinishCopies();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateStagedCommunicator(device::Device& device,
                                                                       std::unique_ptr<Communicator> inner,
                                                                       int64_t staging_bytes) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> stream, device.CreateStream());
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Reservation> staging, device.ReserveHost(staging_bytes));
  return std::make_unique<StagedCommunicator>(device, std::move(stream), std::move(staging), std::move(inner));
}

absl::StatusOr<std::unique_ptr<Communicator>> StagedEndpoint::Join(const CollectiveGroup& group) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> inner, inner_->Join(group));
  return CreateStagedCommunicator(device_, std::move(inner));
}

}  // namespace zerofleet::collective
