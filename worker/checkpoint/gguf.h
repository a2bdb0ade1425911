// A GGUF file, in which llama.cpp and its relatives store a model: its facts (metadata), and where its tensors are.
// Untrusted input.
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

// A number of any type, a text, an array of texts, or an array of numbers; other arrays are not read.
using GgufValue = std::variant<double, std::string, std::vector<std::string>, std::vector<double>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // rows first, as in our tables; the file has the reverse order
  uint32_t type;
  int64_t begin, end;  // bytes in the file
};

struct GgufFile {
  std::map<std::string, GgufValue> facts;
  std::vector<GgufTensor> tensors;

  // The fact `key`; DataLoss, naming it, if it is missing or of another kind.
  absl::StatusOr<double> Number(const std::string& key) const;
  absl::StatusOr<std::string> Text(const std::string& key) const;
  const std::vector<std::string>* Texts(const std::string& key) const;  // null if there is no such array
  const std::vector<double>* Numbers(const std::string& key) const;
  bool Has(const std::string& key) const { return facts.contains(key); }
};

// Whether a file that begins with `head` is a GGUF file.
bool IsGguf(std::string_view head);

// Parses versions 2 and 3, little-endian. DataLoss if the file is malformed or cut short, or a tensor reaches beyond
// it.
absl::StatusOr<GgufFile> ParseGguf(std::span<const std::byte> file);

inline constexpr int64_t kGgufAlignment = 32;  // alignment of tensors' data unless the file has another

// A fact in the type in which it is written.
using GgufFact = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>, std::vector<int32_t>>;

using GgufFacts = std::vector<std::pair<std::string, GgufFact>>;

// Returns the bytes before the data of a file of version 3, a multiple of kGgufAlignment: the facts in order, and the
// tensors, whose `begin` counts from the end of these bytes.
std::string EncodeGgufHeader(const GgufFacts& facts, const std::vector<GgufTensor>& tensors);

// GGUF's type for a tensor that is not quantized.
uint32_t GgufTypeOf(device::DType dtype);

// The name of a tensor's type, such as "Q4_1"; for a type that is not supported, its number.
std::string GgufTypeName(uint32_t type);
// Bytes of `elements` elements of this type, which must be whole blocks; -1 if they are not, or if the type is not
// supported.
int64_t GgufBytes(uint32_t type, int64_t elements);
// Fills `into` from F32, F16, BF16, Q8_0, Q4_0 or Q4_1, whose size GgufBytes has accepted.
void DequantizeGguf(uint32_t type, const std::byte* data, std::span<float> into);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_H_
