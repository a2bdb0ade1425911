// Fuzzes GGUF: any bytes as the file. In an accepted file, tensors lie within it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "worker/checkpoint/gguf.h"
#include "worker/checkpoint/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet::checkpoint;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = ParseGguf(bytes);
  if (!file.ok()) return 0;
  for (const GgufTensor& tensor : file->tensors) {
    if (tensor.end < 0) continue;
    ZF_CHECK(tensor.begin >= 0 && tensor.begin <= tensor.end && tensor.end <= static_cast<int64_t>(size));
    int64_t elements = 1;
    for (int64_t each : tensor.shape) elements *= each;
    ZF_CHECK(GgufBytes(tensor.type, elements) == tensor.end - tensor.begin);
    std::vector<float> values(static_cast<size_t>(elements));
    DequantizeGguf(tensor.type, bytes.data() + tensor.begin, values);
  }
  (void)GgufTokenizer(*file);
  return 0;
}
