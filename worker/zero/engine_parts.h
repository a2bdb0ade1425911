// What an engine works with, and all that it is made of: gather, reduce, the updater, the guard.
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

// Borrowed, and longer lived than the engine.
struct EngineParts {
  const model::ModelSpec& spec;
  const ZeroLayout& layout;
  model::Model& model;
  device::Device& device;
  device::Stream& stream;
  memory::Arena& device_arena;                 // of PlanMemory's device rows
  memory::Arena& host_arena;                   // and of its host rows
  collective::Communicator& communicator;      // the data group
  std::vector<int> ranks = {};                 // of the view, by number in that group; empty: those numbers
  collective::Communicator* tensor = nullptr;  // the tensor group, where the model is in parts
  memory::ScratchFile* scratch = nullptr;      // of StateFile::FileBytes, where the layout keeps states in a file

  device::Ops& ops() const { return device.ops(); }
  int RankOf(int number) const { return ranks.empty() ? number : ranks[number]; }
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_ENGINE_PARTS_H_
