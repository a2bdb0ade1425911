// A checkpoint's weights as one file of somebody else's format: each tensor at a place, of a type and in an order of
// that format's. Holds no tensor in memory, whatever shards they come from.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_FILE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

enum class ElementOrder : uint8_t {
  kOurs,
  kTransposed,   // columns first
  kInterleaved,  // the rows of each head: i and i + half of ours are its 2i and 2i + 1
};

struct PlacedWeight {
  std::string name;
  int64_t flat_begin, flat_end;  // elements of the checkpoint's flat space
  int64_t columns;               // of a row
  device::DType dtype;
  ElementOrder order;
  int64_t head_size;  // rows of a head; of kInterleaved
  int64_t at;         // bytes from the beginning of the file
};

// Low-rank adapters of a weight that is written under its own name are merged into it. Writes `path`, which must not be
// there: `header`, then `weights`, in flat order, that end within `bytes`. Bytes of
// neither are zero. Every byte of the checkpoint `step_dir` is checked on the way. InvalidArgument naming tensor and
// element for a weight that is beyond its type's range; on an error no file is left.
absl::Status WriteWeightFile(const std::string& path, std::string_view header, int64_t bytes,
                             const std::vector<PlacedWeight>& weights, const std::string& step_dir,
                             const v1::CheckpointManifest& manifest, WeightsOf which);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_FILE_H_
