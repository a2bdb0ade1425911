// Fuzzes tokenizer files: any bytes as a tokenizer.json, a sentencepiece model or tiktoken ranks. An accepted tokenizer
// encodes and decodes the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "worker/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using zerofleet::text::Tokenizer;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::Parse("gpt2.tiktoken", bytes, "");
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->Encode(bytes, /*special=*/true);
  if (!ids.ok()) return 0;
  for (int32_t id : *ids) ZF_CHECK(id >= 0 && id < (*tokenizer)->vocab());
  ZF_CHECK((*tokenizer)->Decode(*ids, /*special=*/true).ok());
  return 0;
}
