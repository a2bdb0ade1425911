// The safetensors container: an 8-byte little-endian length, that many bytes of JSON, then the tensors' data.
//
// The header is untrusted input, so nothing in it is used before it is checked: its length against the file, every
// tensor's offsets against its dtype and shape, and all of them together against the data, which they must cover
// without gaps or overlaps. Format: https://huggingface.co/docs/safetensors.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SAFETENSORS_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100 * 1000 * 1000;  // the format's own limit
inline constexpr int64_t kSafetensorsLengthBytes = 8;
// The most tensors in one file: 16 for each layer of the deepest model that can be configured, 10,000
// (worker/model/families.cc). Each has a name and three keys. Reading a header takes memory and time per tensor, so a
// header with more is refused before any is kept.
inline constexpr int64_t kMaxSafetensorsTensors = 160 * 1000;
inline constexpr int64_t kMaxSafetensorsKeys = 4 * kMaxSafetensorsTensors + 1000;  // 1000 for metadata

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", "F16", ...
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // offsets in the data section, in bytes
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // in the order of their data
  int64_t data_begin = 0;                  // where in the file the data section starts
};

// The length of the JSON, from a file's first eight bytes. DataLoss if a file of `file_bytes` bytes cannot hold it.
absl::StatusOr<int64_t> ParseSafetensorsLength(std::string_view first_bytes, int64_t file_bytes);

// The tensors that `json` describes, checked against a file of `file_bytes` bytes in total. DataLoss if anything is
// wrong.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, int64_t file_bytes);

// Reads and parses the header of a file; errors name the file.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path);

// The bytes before the data of `tensors`, including the length: a multiple of eight. The tensors' own offsets are
// ignored: their data follow one another in the order given.
std::string EncodeSafetensorsHeader(const std::vector<SafetensorsTensor>& tensors);

// The format's name of a type.
const char* SafetensorsTypeOf(device::DType dtype);

// Bytes of a tensor of this type and shape; -1 if the type is unknown or the size exceeds 63 bits.
int64_t SafetensorsBytes(std::string_view dtype, const std::vector<int64_t>& shape);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SAFETENSORS_H_
