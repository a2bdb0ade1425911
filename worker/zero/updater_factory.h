// Which updater a layout has, and its rows of the memory plan.
#ifndef ZEROFLEET_WORKER_ZERO_UPDATER_FACTORY_H_
#define ZEROFLEET_WORKER_ZERO_UPDATER_FACTORY_H_

#include <memory>
#include <vector>

#include "worker/memory/arena.h"
#include "worker/zero/layout.h"
#include "worker/zero/updater.h"

namespace zerofleet::zero {

std::unique_ptr<Updater> CreateUpdater(const UpdaterParts& parts);

// The rows that the updater of this layout takes from its arenas.
std::vector<memory::MemoryRow> UpdaterRows(const ZeroLayout& layout);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_UPDATER_FACTORY_H_
