// The inputs that a model's segments keep from forward to backward, and where they are meanwhile (ZeRO §6.1).
//
// A segment's input is made and used whole. If inputs are also kept whole, each has a place of its own. Otherwise the
// segments take turns in one or two places, and this rank's part of each input is kept elsewhere: partitioned (P_a),
// 1/N of the input, which the tensor group gathers again for the backward; offloaded (P_a+cpu), in host memory. Inputs
// that the forward leaves in those places are not kept a second time: the last one, or the last two where offloaded.
//
// Copies to and from the host run on a stream of their own: an input is copied out while its segment is computed, and
// back while the backward of the segment after it runs. Splitting activations in another way belongs elsewhere.
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
  static constexpr int64_t kAlignment = 64;  // alignment of every place, in bytes

  // Keeps `segments` inputs of at most `elements` elements each. `parts`, the model's number of parts, divides every
  // number of elements.
  KeptInputs(const Checkpointing& checkpointing, int64_t segments, int64_t elements, device::DType dtype, int parts,
             device::Device& device);

  // Bytes of device memory that Pass::device must have. WholeAt is the offset in it of a segment's whole input.
  int64_t DeviceBytes() const;
  // The places in that memory, in order: each belongs to one segment, or is taken in turn by all (kAllSegments).
  struct PlaceOnDevice {
    int64_t bytes, segment;
  };
  static constexpr int64_t kAllSegments = -1;
  std::vector<PlaceOnDevice> Places() const;
  int64_t HostBytes() const { return offloads_ ? kept() * PartBytes() : 0; }
  int64_t WholeAt(int64_t segment) const { return segment % wholes_ * WholeBytes(); }

  // One micro-batch's pass: its borrowed memory, its number of elements, and the tensor group of a model in parts.
  struct Pass {
    void *device, *host;
    int64_t elements;
    TensorGroup* group;
    device::Stream& stream;
  };
  // Keeps the segment's input, which is in its place. Called for every segment, in order, of a forward that a backward
  // follows.
  void Keep(const Pass& pass, int64_t segment);
  // Puts the segment's input in its place again; `unit` names it in reports. Called for every segment but the last, in
  // falling order, before the segment's backward.
  absl::Status Fetch(const Pass& pass, int64_t segment, std::string unit);
  // Makes work that is enqueued on `stream` from now on wait for every copy.
  void Join(device::Stream& stream) const;

  // What all passes have copied since ForgetLink.
  const device::LinkTraffic& link() const { return link_; }
  void ForgetLink() { link_ = {}; }

 private:
  int64_t kept() const { return segments_ - wholes_; }
  // The size of a rank's part. The tensor degree divides the hidden size, since it divides the heads.
  int64_t PartElements(int64_t elements) const { return elements / shares_; }
  int64_t PartBytes() const;
  int64_t WholeBytes() const;
  device::Tensor Whole(const Pass& pass, int64_t segment) const;
  // This rank's part: within the whole input (Mine), and where it is kept (Place).
  device::Tensor Mine(const Pass& pass, int64_t segment) const;
  void* Place(const Pass& pass, int64_t segment) const;
  void FetchFromHost(const Pass& pass, int64_t segment);

  device::Device& device_;
  const device::DType dtype_;
  const bool offloads_;
  const int64_t shares_;  // number of parts of an input; a rank keeps one
  const int64_t segments_, wholes_, elements_;
  const std::unique_ptr<device::Stream> copies_;        // null where nothing is offloaded
  std::shared_ptr<device::Event> left_, here_, ready_;  // the last copy out, the last copy back, the pass before either
  device::LinkTraffic link_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_KEPT_INPUTS_H_
