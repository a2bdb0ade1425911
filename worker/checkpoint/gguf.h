// A GGUF file, as llama.cpp and its relatives store a model: its facts, and where its tensors are. Untrusted input.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {

// Numbers of any type; arrays of texts and of numbers, no others.
using GgufValue = std::variant<double, std::string, std::vector<std::string>, std::vector<double>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // rows first, as ours: the reverse of how the file has it
  uint32_t type;
  int64_t begin, end;  // bytes in the file
};

struct GgufFile {
  std::map<std::string, GgufValue> facts;
  std::vector<GgufTensor> tensors;

  // The fact `key`; DataLoss that names it if it is missing or of another kind.
  absl::StatusOr<double> Number(const std::string& key) const;
  absl::StatusOr<std::string> Text(const std::string& key) const;
  const std::vector<std::string>* Texts(const std::string& key) const;  // null if there are none
  const std::vector<double>* Numbers(const std::string& key) const;
  bool Has(const std::string& key) const { return facts.contains(key); }
};

// Whether a file that begins so is one.
bool IsGguf(std::string_view head);

// Versions 2 and 3, little-endian. DataLoss for what is malformed, cut short, or reaches beyond the file.
absl::StatusOr<GgufFile> ParseGguf(std::span<const std::byte> file);

inline constexpr int64_t kGgufAlignment = 32;  // of tensors' data, where a file says nothing else

// What a file says of the model, as it is written.
using GgufFact = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>, std::vector<int32_t>>;

using GgufFacts = std::vector<std::pair<std::string, GgufFact>>;

// The bytes before the data of a file of version 3: with the facts in order, and the tensors, whose `begin` counts from
// the end of these bytes, a multiple of kGgufAlignment.
std::string EncodeGgufHeader(const GgufFacts& facts, const std::vector<GgufTensor>& tensors);

// The type of a tensor that is not quantized.
uint32_t GgufTypeOf(device::DType dtype);

// The name of a tensor's type, such as "Q4_1"; its number for one that is not read.
std::string GgufTypeName(uint32_t type);
// Bytes of `elements` of it, a whole number of blocks; -1 for a type that is not read, or a part of a block.
int64_t GgufBytes(uint32_t type, int64_t elements);
// F32, F16, BF16, Q8_0, Q4_0 and Q4_1, which GgufBytes has been asked about.
void DequantizeGguf(uint32_t type, const std::byte* data, std::span<float> into);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_H_
