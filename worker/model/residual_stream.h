// The residual stream of a model that a tensor group may share (Shoeybi et al. 2019), and what its ranks exchange.
//
// Either every rank has the whole stream, with the same bits, or each rank has its slice of a micro-batch's tokens
// (sequence parallelism, Korthikanti et al. 2022 §4.2.2). A product into the stream is a sum over the parts: reduced to
// all ranks, or scattered by tokens. A norm's output for a rank's tokens is gathered before the products that take it,
// and so is the stream's gradient. A whole model exchanges nothing.
#ifndef ZEROFLEET_WORKER_MODEL_RESIDUAL_STREAM_H_
#define ZEROFLEET_WORKER_MODEL_RESIDUAL_STREAM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/device/ops.h"
#include "worker/model/part.h"
#include "worker/model/tensor_group.h"

namespace zerofleet::model {

class ResidualStream {
 public:
  ResidualStream(int64_t hidden, device::DType dtype, const Sharing& sharing)
      : hidden_(hidden), dtype_(dtype), divided_(sharing.sequence && sharing.parts > 1), part_{0, sharing.parts} {}

  // `group` is borrowed; null for a whole model.
  void SetTensorGroup(TensorGroup* group);
  TensorGroup* group() const { return group_; }
  const ModelPart& part() const { return part_; }
  bool in_parts() const { return part_.count > 1; }
  // Whether each rank has only some of the tokens.
  bool divided() const { return divided_; }
  int64_t hidden() const { return hidden_; }

  // The number of tokens that this rank has of `m`, and the first of them.
  int64_t Tokens(int64_t m) const { return divided_ ? m / part_.count : m; }
  int64_t FirstToken(int64_t m) const { return divided_ ? part_.index * Tokens(m) : 0; }
  // The rows of this rank's tokens in a matrix of all tokens.
  device::Tensor Rows(device::Tensor all, int64_t m) const { return all.Offset(FirstToken(m) * hidden_); }
  // `tensor` on the rank that adds it in a sum over the parts, null on the others.
  device::Tensor Once(device::Tensor tensor) const { return part_.index == 0 ? tensor : device::Tensor{}; }

  // Where to make a product of all tokens that SumOverParts then sums into `sum`: in `sum` itself, or in `spare` where
  // `sum` holds only this rank's tokens.
  device::Tensor SummandPlace(device::Tensor sum, device::Tensor spare) const { return divided_ ? spare : sum; }
  // sum = the sum over the parts of `all`, for the tokens that this rank has. `unit` names it in reports.
  absl::Status SumOverParts(device::Tensor all, device::Tensor sum, int64_t m, const std::string& unit,
                            device::Stream& stream) const;
  // Gathers in `all` every rank's Rows.
  absl::Status Gather(device::Tensor all, int64_t m, const std::string& unit, device::Stream& stream) const;

 private:
  const int64_t hidden_;
  const device::DType dtype_;
  const bool divided_;
  ModelPart part_;
  TensorGroup* group_ = nullptr;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_RESIDUAL_STREAM_H_
