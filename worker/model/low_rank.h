// Low-rank adapters beside a product of a block (Hu et al. 2021): y += scale * (x A^T) B^T, with A (r,K) and B (n,r).
//
// They are tensors of a unit of their own, which is trained where the block's is frozen. Of a part of a model the one
// that is not cut (A before columns of y, B behind columns of x) is the same in every part; what the parts have of its
// gradient is made in scratch and summed at the block's end (block.cc). Products of many tokens are made a piece at a
// time, so that scratch does not grow with the micro-batch. x A^T is computed again in the backward.
#ifndef ZEROFLEET_WORKER_MODEL_LOW_RANK_H_
#define ZEROFLEET_WORKER_MODEL_LOW_RANK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/model/declaration.h"
#include "worker/model/layer.h"

namespace zerofleet::model {

class LowRank {
 public:
  LowRank() = default;
  // The adapters of a product that takes `k` columns in a part of the model.
  LowRank(int64_t k, Declaration& declaration)
      : rank_(declaration.sizes().lora_rank), k_(k), scale_(declaration.sizes().lora_scale) {}

  bool empty() const { return adapters_.empty(); }

  // Declares the adapter of one weight (rows, columns), cut so, if the configuration wants one: its rows are columns
  // `first` on of the product's output.
  void Declare(const std::string& name, int64_t rows, int64_t columns, const Cut& cut, int64_t first,
               Declaration& declaration);

  // Adds to y(m, y_columns), made from x(m, k).
  void Add(const UnitPass& pass, int64_t m, device::Tensor x, device::Tensor y, int64_t y_columns) const;
  // To the adapters' gradients, from dy(M, dy_columns); and keeps what AddInput takes.
  void BackwardWeights(const UnitPass& pass, device::Tensor dy, int64_t dy_columns, device::Tensor x) const;
  // Behind it: adds to the gradient dx of x, or with `before` through the GELU that made x of it.
  void AddInput(const UnitPass& pass, device::Tensor dx, device::Tensor before) const;

 private:
  struct Adapter {
    int64_t first, n;        // columns of the product's output
    int64_t a, b;            // in the adapters' unit
    int64_t a_sums, b_sums;  // in Scratch::adapter_sums; -1: the gradient is whole
  };
  device::Tensor Reduced(const UnitPass& pass, size_t adapter) const;
  float* Gradient(const UnitPass& pass, int64_t at, int64_t sums) const;

  int64_t rank_ = 0, k_ = 0;
  float scale_ = 0;
  std::vector<Adapter> adapters_;
};

// Adds what the parts of a model have of a block's adapters to their gradients; nothing in a whole model.
absl::Status SumAdapterGradients(const UnitPass& pass, const Declaration& block);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LOW_RANK_H_
