// Writes a checkpoint's weights as one file of another program's format, which decides each tensor's place, type and
// order. Holds no whole tensor in memory, however the weights are spread over shards.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_FILE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

enum class ElementOrder : uint8_t {
  kOurs,
  kTransposed,   // columns first
  kInterleaved,  // within each head, our rows i and i + half become 2i and 2i + 1
};

struct PlacedWeight {
  std::string name;
  int64_t flat_begin, flat_end;  // range in the checkpoint's flat space
  int64_t columns;               // columns of the matrix
  device::DType dtype;
  ElementOrder order;
  int64_t head_size;   // rows of a head; for kInterleaved
  int64_t at;          // offset in the file, in bytes
  bool bytes = false;  // the elements are bytes, and are stored as such
  int64_t StoredBytes() const { return (flat_end - flat_begin) * (bytes ? 1 : device::DTypeBytes(dtype)); }
};

// Writes `path`, which must not exist: `header`, then `weights`, in flat order, which must end within `bytes`; bytes
// that belong to neither are zero. What lies between two weights in the flat space is left out. Low-rank adapters are
// merged into the weights they belong to. Every byte of the checkpoint `step_dir` is checked on the way.
// InvalidArgument, naming tensor and element, for a weight beyond its type's range, and DataLoss for a byte that is
// none; on an error no file is left.
absl::Status WriteWeightFile(const std::string& path, std::string_view header, int64_t bytes,
                             const std::vector<PlacedWeight>& weights, const std::string& step_dir,
                             const v1::CheckpointManifest& manifest, WeightsOf which);

// A safetensors file to be written, of tensors of one type, and buffers.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(device::DType dtype) : dtype_(dtype) {}

  // Adds a checkpoint's tensor under this name, with its columns first if `transposed`. In flat order.
  void Add(const v1::TensorEntry& entry, const std::string& name, bool transposed);
  // Adds a tensor that has the bytes of a module's buffer.
  void AddBuffer(const v1::TensorEntry& entry, const v1::ForeignBuffer& buffer);
  size_t size() const { return weights_.size(); }
  // Errors as from WriteWeightFile.
  absl::Status Write(const std::string& path, const std::string& step_dir, const v1::CheckpointManifest& manifest,
                     WeightsOf which);

 private:
  const device::DType dtype_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<PlacedWeight> weights_;
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_FILE_H_
