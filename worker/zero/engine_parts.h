// What an engine and its components (gather, reduce, the updater, the guard) work with.
#ifndef ZEROFLEET_WORKER_ZERO_ENGINE_PARTS_H_
#define ZEROFLEET_WORKER_ZERO_ENGINE_PARTS_H_

#include <vector>

#include "worker/collective/communicator.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"
#include "worker/memory/arena.h"
#include "worker/memory/scratch_file.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/zero/layout.h"

namespace zerofleet::zero {

// All borrowed; they must outlive the engine.
struct EngineParts {
  const model::ModelSpec& spec;
  const ZeroLayout& layout;
  model::Model& model;
  device::Device& device;
  device::Stream& stream;
  memory::Arena& device_arena;                 // made from PlanMemory's device rows
  memory::Arena& host_arena;                   // made from PlanMemory's host rows
  collective::Communicator& communicator;      // the data group
  std::vector<int> ranks = {};                 // ranks of the view by number in the data group; empty: the same numbers
  collective::Communicator* tensor = nullptr;  // the tensor group; null where the model is whole
  memory::ScratchFile* scratch = nullptr;  // has StateFile::FileBytes; null unless the layout keeps states in a file

  device::Ops& ops() const { return device.ops(); }
  int RankOf(int number) const { return ranks.empty() ? number : ranks[number]; }
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_ENGINE_PARTS_H_
