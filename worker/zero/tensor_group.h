// A tensor group over a communicator: the model's sums and gathers, in the order of its stream.
#ifndef ZEROFLEET_WORKER_ZERO_TENSOR_GROUP_H_
#define ZEROFLEET_WORKER_ZERO_TENSOR_GROUP_H_

#include <string>

#include "worker/collective/communicator.h"
#include "worker/model/tensor_group.h"

namespace zerofleet::zero {

class CommunicatorTensorGroup : public model::TensorGroup {
 public:
  // `communicator` is the tensor group's, and outlives this object.
  explicit CommunicatorTensorGroup(collective::Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  absl::Status AllReduce(device::Stream& stream, device::Tensor data, int64_t count, std::string unit) override;
  absl::Status AllGather(device::Stream& stream, void* all, int64_t bytes, std::string unit) override;

 private:
  collective::Communicator& communicator_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_TENSOR_GROUP_H_
