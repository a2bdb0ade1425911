// Sums and gathers of tokens; see residual_stream.h.
#include "worker/model/residual_stream.h"

#include "base/check.h"

namespace zerofleet::model {

void ResidualStream::SetTensorGroup(TensorGroup* group) {
  group_ = group;
  ZF_CHECK((group == nullptr ? 1 : group->size()) == part_.count);
  part_.index = group == nullptr ? 0 : group->rank();
}

absl::Status ResidualStream::SumOverParts(device::Tensor all, device::Tensor sum, int64_t m, const std::string& unit,
                                          device::Stream& stream) const {
  if (!in_parts()) return absl::OkStatus();
  if (divided_) return group_->ReduceScatter(stream, all, sum, m * hidden_, unit);
  return group_->AllReduce(stream, all, m * hidden_, unit);
}

absl::Status ResidualStream::Gather(device::Tensor all, int64_t m, const std::string& unit,
                                    device::Stream& stream) const {
  if (!divided_) return absl::OkStatus();
  return group_->AllGather(stream, all.data, Tokens(m) * hidden_ * device::DTypeBytes(dtype_), unit);
}

}  // namespace zerofleet::model
