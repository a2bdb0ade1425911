// A tensor group over a communicator: the model's sums and gathers, in the order of its stream.
#ifndef ZEROFLEET_WORKER_ZERO_TENSOR_GROUP_H_
#define ZEROFLEET_WORKER_ZERO_TENSOR_GROUP_H_

#include <string>
#include <utility>

#include "base/check.h"
#include "worker/collective/communicator.h"
#include "worker/model/tensor_group.h"
#include "worker/zero/phases.h"

namespace zerofleet::zero {

class CommunicatorTensorGroup : public model::TensorGroup {
 public:
  // `communicator` is the tensor group's; both outlive this object. Waits count as the phase `gather`, so that a rank
  // whose forward is slow can be told from those that wait for it.
  CommunicatorTensorGroup(collective::Communicator& communicator, PhaseMarks& marks)
      : communicator_(communicator), marks_(marks) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  absl::Status AllReduce(device::Stream& stream, device::Tensor data, int64_t count, std::string unit) override {
    const PhaseMarks::Within wait(marks_, StepPhase::kGather);
    return communicator_.AllReduce(data, count, std::move(unit), stream.Record()).MakeStreamWait(stream);
  }
  absl::Status ReduceScatter(device::Stream& stream, device::Tensor full, device::Tensor mine, int64_t count,
                             std::string unit) override {
    ZF_CHECK(count % size() == 0);
    const PhaseMarks::Within wait(marks_, StepPhase::kGather);
    return communicator_.ReduceScatter(full, mine, count, std::move(unit), stream.Record()).MakeStreamWait(stream);
  }
  absl::Status AllGather(device::Stream& stream, void* all, int64_t bytes, std::string unit) override {
    const PhaseMarks::Within wait(marks_, StepPhase::kGather);
    return communicator_.AllGatherBytes(nullptr, all, bytes, std::move(unit), stream.Record()).MakeStreamWait(stream);
  }

 private:
  collective::Communicator& communicator_;
  PhaseMarks& marks_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_TENSOR_GROUP_H_
