// A block made from a family's rows: its layers, and its passes over them.
#ifndef ZEROFLEET_WORKER_MODEL_BLOCK_H_
#define ZEROFLEET_WORKER_MODEL_BLOCK_H_

#include <memory>
#include <vector>

#include "worker/model/declaration.h"
#include "worker/model/layer.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

class Block {
 public:
  // Rows are branches, each from a Norm to a Project.
  Block(const FamilyRows& rows, const Sizes& sizes, const Sharing& sharing);

  const Declaration& declared() const { return declared_; }
  int64_t AttentionScratchBytes(device::Ops& ops, int64_t sequences, int64_t time) const;
  int64_t CachedElements(int64_t capacity) const;

  // Computes everything in the block but its output.
  absl::Status ForwardWithin(const UnitPass& pass) const;
  absl::Status ForwardOutput(const UnitPass& pass) const;
  // Takes the residual stream's gradient at the block's output and leaves the one at its input in the same place. With
  // `again`, cheap activations are recomputed first, a branch at a time.
  absl::Status Backward(const UnitPass& pass, bool again) const;

 private:
  using Layers = std::vector<std::unique_ptr<Layer>>;
  absl::Status BranchBackward(const UnitPass& pass, size_t begin, size_t end, bool again) const;

  Declaration declared_;
  Layers layers_;
  std::vector<size_t> branches_;  // each branch's first layer, and the end of the last
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_BLOCK_H_
