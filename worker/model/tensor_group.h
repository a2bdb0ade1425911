// What a model that is shared by several ranks needs from the others: sums, and gathers of a few numbers per token.
//
// The model knows nothing of communicators; worker/zero implements this. Every rank of the group requests the same
// operations in the same order. Operations are ordered on the stream: they read what was enqueued before them, and what
// is enqueued afterwards sees their result.
#ifndef ZEROFLEET_WORKER_MODEL_TENSOR_GROUP_H_
#define ZEROFLEET_WORKER_MODEL_TENSOR_GROUP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/device/tensor.h"

namespace zerofleet::model {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // data(count) = the sum over the ranks, added up in fp32 in rank order and rounded once: the same bits on every rank.
  // `unit` names the data's unit, for reports.
  virtual absl::Status AllReduce(device::Stream& stream, device::Tensor data, int64_t count, std::string unit) = 0;
  // mine = this rank's part of that sum of `full`(count); size() divides `count`. `mine` may be the part's place in
  // `full`. AllReduce has the same bits as this followed by AllGather.
  virtual absl::Status ReduceScatter(device::Stream& stream, device::Tensor full, device::Tensor mine, int64_t count,
                                     std::string unit) = 0;
  // all = `bytes` bytes from every rank, in rank order; this rank's are in place already.
  virtual absl::Status AllGather(device::Stream& stream, void* all, int64_t bytes, std::string unit) = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_TENSOR_GROUP_H_
