// Parts out and back; see kept_inputs.h.
#include "worker/model/kept_inputs.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace zerofleet::model {
namespace {

// The number of whole inputs on the device at a time: one in use and, if they come from the host, one being copied.
int64_t WholeInputs(bool offloads, bool partitions, int64_t segments) {
  if (!offloads && !partitions) return segments;
  return std::min<int64_t>(offloads ? 2 : 1, segments);
}

}  // namespace

KeptInputs::KeptInputs(const Checkpointing& checkpointing, int64_t segments, int64_t elements, device::DType dtype,
                       int parts, device::Device& device)
    : device_(device),
      dtype_(dtype),
      offloads_(checkpointing.offload),
      shares_(checkpointing.partition ? parts : 1),
      segments_(segments),
      wholes_(WholeInputs(offloads_, shares_ > 1, segments)),
      elements_(elements),
      copies_(offloads_ ? device.CreateStream().value() : nullptr) {}

int64_t KeptInputs::PartBytes() const {
  return RoundUp(PartElements(elements_) * device::DTypeBytes(dtype_), kAlignment);
}

int64_t KeptInputs::WholeBytes() const { return RoundUp(elements_ * device::DTypeBytes(dtype_), kAlignment); }

int64_t KeptInputs::DeviceBytes() const { return wholes_ * WholeBytes() + (offloads_ ? 0 : kept() * PartBytes()); }

std::vector<KeptInputs::PlaceOnDevice> KeptInputs::Places() const {
  std::vector<PlaceOnDevice> places;
  if (kept() > 0) {
    places.push_back({wholes_ * WholeBytes(), kAllSegments});
  } else {
    for (int64_t segment = 0; segment < segments_; ++segment) places.push_back({WholeBytes(), segment});
  }
  for (int64_t segment = 0; segment < kept() && !offloads_; ++segment) places.push_back({PartBytes(), segment});
  return places;
}

device::Tensor KeptInputs::Whole(const Pass& pass, int64_t segment) const {
  return {static_cast<std::byte*>(pass.device) + WholeAt(segment), dtype_};
}

device::Tensor KeptInputs::Mine(const Pass& pass, int64_t segment) const {
  const int64_t rank = shares_ > 1 ? pass.group->rank() : 0;
  return Whole(pass, segment).Offset(rank * PartElements(pass.elements));
}

void* KeptInputs::Place(const Pass& pass, int64_t segment) const {
  if (offloads_) return static_cast<std::byte*>(pass.host) + segment * PartBytes();
  return static_cast<std::byte*>(pass.device) + wholes_ * WholeBytes() + segment * PartBytes();
}

void KeptInputs::Keep(const Pass& pass, int64_t segment) {
  ZF_CHECK(pass.elements <= elements_ && pass.elements % shares_ == 0);
  // This segment's output goes to the place of the input before this one's, so its copy to the host must be done.
  if (left_ != nullptr) pass.stream.Wait(*std::exchange(left_, nullptr));
  if (segment >= kept()) return;
  const int64_t bytes = PartElements(pass.elements) * device::DTypeBytes(dtype_);
  if (!offloads_) return device_.Copy(pass.stream, Place(pass, segment), Mine(pass, segment).data, bytes);
  ready_ = pass.stream.Record();
  copies_->Wait(*ready_);
  device_.Copy(*copies_, Place(pass, segment), Mine(pass, segment).data, bytes);
  left_ = copies_->Record();
  link_.to_host.Add(bytes);
}

absl::Status KeptInputs::Fetch(const Pass& pass, int64_t segment, std::string unit) {
  const std::shared_ptr<device::Event> here = std::exchange(here_, nullptr);
  // The input after this one has been used; the input before this one takes its place.
  if (offloads_ && segment > 0 && segment - 1 < kept()) FetchFromHost(pass, segment - 1);
  if (segment >= kept()) return absl::OkStatus();
  const int64_t bytes = PartElements(pass.elements) * device::DTypeBytes(dtype_);
  if (offloads_) {
    pass.stream.Wait(*here);
  } else {
    device_.Copy(pass.stream, Mine(pass, segment).data, Place(pass, segment), bytes);
  }
  if (shares_ == 1) return absl::OkStatus();
  return pass.group->AllGather(pass.stream, Whole(pass, segment).data, bytes, std::move(unit));
}

void KeptInputs::FetchFromHost(const Pass& pass, int64_t segment) {
  const int64_t bytes = PartElements(pass.elements) * device::DTypeBytes(dtype_);
  ready_ = pass.stream.Record();
  copies_->Wait(*ready_);
  device_.Copy(*copies_, Mine(pass, segment).data, Place(pass, segment), bytes);
  here_ = copies_->Record();
  link_.to_device.Add(bytes);
}

void KeptInputs::Join(device::Stream& stream) const {
  if (copies_ != nullptr) stream.Wait(*copies_->Record());
}

}  // namespace zerofleet::model
