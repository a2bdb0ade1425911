// Compares every id of a file with the vocabulary, at the speed of memory, before a run begins.
#ifndef ZEROFLEET_WORKER_DATA_ID_SCAN_H_
#define ZEROFLEET_WORKER_DATA_ID_SCAN_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/data/format.h"
#include "worker/data/token_file.h"

namespace zerofleet::data {

struct FoundId {
  int64_t position = 0;  // in tokens
  uint32_t id = 0;
};

// Whether a file of this format could hold an id that is not below `vocab`: bytes cannot exceed 255.
bool MayExceed(const TokenFormat& format, int64_t vocab);

// Finds the first of the leading `tokens` ids that is not below `vocab` (at most 2^31), with up to `threads` threads;
// nullopt if there is none. Cancelled once `cancelled` returns true; every thread calls it now and then.
absl::StatusOr<std::optional<FoundId>> FindIdNotBelow(const TokenFile& file, const TokenFormat& format, int64_t tokens,
                                                      int64_t vocab, int threads,
                                                      const std::function<bool()>& cancelled);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_ID_SCAN_H_
