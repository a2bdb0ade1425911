// See tensor_group.h.
#include "worker/zero/tensor_group.h"

#include <utility>

#include "base/check.h"

namespace zerofleet::zero {

absl::Status CommunicatorTensorGroup::AllReduce(device::Stream& stream, device::Tensor data, int64_t count,
                                                std::string unit) {
  const PhaseMarks::Within wait(marks_, StepPhase::kGather);
  return communicator_.AllReduce(data, count, std::move(unit), stream.Record()).MakeStreamWait(stream);
}

absl::Status CommunicatorTensorGroup::ReduceScatter(device::Stream& stream, device::Tensor full, device::Tensor mine,
                                                    int64_t count, std::string unit) {
  ZF_CHECK(count % size() == 0);
  const PhaseMarks::Within wait(marks_, StepPhase::kGather);
  return communicator_.ReduceScatter(full, mine, count, std::move(unit), stream.Record()).MakeStreamWait(stream);
}

absl::Status CommunicatorTensorGroup::AllGather(device::Stream& stream, void* all, int64_t bytes, std::string unit) {
  const PhaseMarks::Within wait(marks_, StepPhase::kGather);
  return communicator_.AllGatherBytes(nullptr, all, bytes, std::move(unit), stream.Record()).MakeStreamWait(stream);
}

}  // namespace zerofleet::zero
