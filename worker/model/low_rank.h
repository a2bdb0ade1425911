// Low-rank adapters beside a product of a block (Hu et al. 2021): y += scale * (x A^T) B^T, with A (r,K) and B (n,r).
//
// A block's adapters are a unit of their own, which is trained while the block's unit is frozen. In a part of a model,
// the matrix that is not cut (A for a product that is cut by rows, B for one that is cut by columns) is the same in
// every part; each part makes its summand of that matrix's gradient in scratch, and these are summed at the block's end
// (block.cc). Products of many tokens are made a piece at a time, so that scratch does not grow with the micro-batch. x
// A^T is computed again in the backward.
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
  // The adapters of a product whose input has `k` columns in a part of the model.
  LowRank(int64_t k, Declaration& declaration)
      : rank_(declaration.sizes().lora_rank), k_(k), scale_(declaration.sizes().lora_scale) {}

  bool empty() const { return adapters_.empty(); }

  // Declares the adapter of one weight (rows, columns), cut by `cut`, if the configuration wants one. The weight's rows
  // are the product's output columns from `first` on.
  void Declare(const std::string& name, int64_t rows, int64_t columns, const Cut& cut, int64_t first,
               Declaration& declaration);

  // Adds the adapters' outputs for x(m, k) to y(m, y_columns).
  void Add(const UnitPass& pass, int64_t m, device::Tensor x, device::Tensor y, int64_t y_columns) const;
  // Adds to the adapters' gradients, from dy(M, dy_columns), and keeps what AddInput needs.
  void BackwardWeights(const UnitPass& pass, device::Tensor dy, int64_t dy_columns, device::Tensor x) const;
  // After BackwardWeights: adds to dx, the gradient of x; with `before`, to the gradient of `before`, where x =
  // GELU(before).
  void AddInput(const UnitPass& pass, device::Tensor dx, device::Tensor before) const;

 private:
  struct Adapter {
    int64_t first, n;        // columns of the product's output
    int64_t a, b;            // offsets in the adapters' unit
    int64_t a_sums, b_sums;  // offsets in Scratch::adapter_sums; -1: the gradient needs no sum
  };
  device::Tensor Reduced(const UnitPass& pass, size_t adapter) const;
  float* Gradient(const UnitPass& pass, int64_t at, int64_t sums) const;

  int64_t rank_ = 0, k_ = 0;
  float scale_ = 0;
  std::vector<Adapter> adapters_;
};

// Sums over the parts of a model the gradients in Scratch::adapter_sums, and adds them to a block's adapters'
// gradients. Does nothing in a whole model.
absl::Status SumAdapterGradients(const UnitPass& pass, const Declaration& block);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LOW_RANK_H_
