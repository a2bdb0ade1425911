// What a model that is shared by several ranks needs of the others: sums, and gathers of a few numbers per token.
//
// The model never looks up at communicators; worker/zero implements this. Every rank of the group asks for the same
// operations in the same order. They are in the order of the stream: what is enqueued before is read, and what is
// enqueued after sees the result.
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
  // `unit` says what of, for reports.
  virtual absl::Status AllReduce(device::Stream& stream, device::Tensor data, int64_t count, std::string unit) = 0;
  // mine = this rank's of size() equal parts of that sum of `full`(count), which they divide; it may be in its place
  // there. AllReduce is this and AllGather, with the same bits.
  virtual absl::Status ReduceScatter(device::Stream& stream, device::Tensor full, device::Tensor mine, int64_t count,
                                     std::string unit) = 0;
  // all = `bytes` from every rank, in rank order; this rank's are there already.
  virtual absl::Status AllGather(device::Stream& stream, void* all, int64_t bytes, std::string unit) = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_TENSOR_GROUP_H_
