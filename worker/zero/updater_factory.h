// Which updater a layout has, and what it takes of the memory plan.
#ifndef ZEROFLEET_WORKER_ZERO_UPDATER_FACTORY_H_
#define ZEROFLEET_WORKER_ZERO_UPDATER_FACTORY_H_

#include <memory>
#include <vector>

#include "worker/memory/arena.h"
#include "worker/zero/layout.h"
#include "worker/zero/updater.h"

namespace zerofleet::zero {

std::unique_ptr<Updater> CreateUpdater(const UpdaterParts& parts);

// The rows that CreateUpdater of this layout finds in its arenas.
std::vector<memory::MemoryRow> UpdaterRows(const ZeroLayout& layout);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_UPDATER_FACTORY_H_
