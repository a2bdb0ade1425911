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

  // Everything of the block but its output.
  absl::Status ForwardWithin(const UnitPass& pass) const;
  absl::Status ForwardOutput(const UnitPass& pass) const;
  // The residual stream's gradient comes in as that of the block's output and leaves as that of its input. What is
  // cheap is made `again` first, a branch at a time.
  absl::Status Backward(const UnitPass& pass, bool again) const;

 private:
  using Layers = std::vector<std::unique_ptr<Layer>>;
  absl::Status BranchBackward(const UnitPass& pass, size_t begin, size_t end, bool again) const;

  Declaration declared_;
  Layers layers_;
  std::vector<size_t> branches_;  // the first layer of each, and the end
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_BLOCK_H_
