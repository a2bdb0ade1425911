// The inputs that a model's segments keep from forward to backward, and where they are meanwhile (ZeRO §6.1).
//
// A segment's input is made and used whole. Kept whole too, each has a place of its own. Otherwise there are one or two
// places that the segments take in turn, and what is kept beside them is a rank's part: partitioned (P_a), 1/N of the
// input, which the tensor group gathers again for the backward; offloaded (P_a+cpu), in the host's memory. Inputs that
// the forward has left in those places are not kept a second time: the last one's, or the last two's where offloaded.
//
// Copies to and from the host have a stream of their own: one leaves while its segment is computed, and one comes back
// while the backward of the segment after it runs. A split of the activations in another way belongs elsewhere.
#ifndef ZEROFLEET_WORKER_MODEL_KEPT_INPUTS_H_
#define ZEROFLEET_WORKER_MODEL_KEPT_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/device/link_traffic.h"
#include "worker/device/tensor.h"
#include "worker/model/checkpointing.h"
#include "worker/model/tensor_group.h"

namespace zerofleet::model {

class KeptInputs {
 public:
  static constexpr int64_t kAlignment = 64;  // of every place in memory

  // `segments` inputs of at most `elements` each, of a model of `parts` parts, which divide every number of elements.
  KeptInputs(const Checkpointing& checkpointing, int64_t segments, int64_t elements, device::DType dtype, int parts,
             device::Device& device);

  // What Memory must have room for, and where in its `device` a segment's whole input is.
  int64_t DeviceBytes() const;
  // Its parts in that memory, in their order: of one segment, or taken in turn by all.
  struct PlaceOnDevice {
    int64_t bytes, segment;
  };
  static constexpr int64_t kAllSegments = -1;
  std::vector<PlaceOnDevice> Places() const;
  int64_t HostBytes() const { return offloads_ ? kept() * PartBytes() : 0; }
  int64_t WholeAt(int64_t segment) const { return segment % wholes_ * WholeBytes(); }

  // One micro-batch's pass: its memory, borrowed, its number of elements, and the tensor group of a model in parts.
  struct Pass {
    void *device, *host;
    int64_t elements;
    TensorGroup* group;
    device::Stream& stream;
  };
  // The segment's input is in its place. Every segment of a forward with a backward, in their order.
  void Keep(const Pass& pass, int64_t segment);
  // Puts it there again; `unit` names it in reports. Every segment but the last, in falling order, before its backward.
  absl::Status Fetch(const Pass& pass, int64_t segment, std::string unit);
  // What is enqueued on `stream` from now on runs after every copy.
  void Join(device::Stream& stream) const;

  // What all passes copied since ForgetLink.
  const device::LinkTraffic& link() const { return link_; }
  void ForgetLink() { link_ = {}; }

 private:
  int64_t kept() const { return segments_ - wholes_; }
  // A rank's part. The hidden size divides by the tensor degree, since heads do.
  int64_t PartElements(int64_t elements) const { return elements / shares_; }
  int64_t PartBytes() const;
  int64_t WholeBytes() const;
  device::Tensor Whole(const Pass& pass, int64_t segment) const;
  // This rank's part, in the whole input, and where it is kept.
  device::Tensor Mine(const Pass& pass, int64_t segment) const;
  void* Place(const Pass& pass, int64_t segment) const;
  void FetchFromHost(const Pass& pass, int64_t segment);

  device::Device& device_;
  const device::DType dtype_;
  const bool offloads_;
  const int64_t shares_;  // parts of an input, one of which a rank keeps
  const int64_t segments_, wholes_, elements_;
  const std::unique_ptr<device::Stream> copies_;        // null where nothing is offloaded
  std::shared_ptr<device::Event> left_, here_, ready_;  // the last copy out, the last copy back, the pass before either
  device::LinkTraffic link_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_KEPT_INPUTS_H_
