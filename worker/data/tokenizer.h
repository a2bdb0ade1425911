// Text to token ids and back.
//
// A new tokenizer is a class here behind Tokenizer and a line in Create.
#ifndef ZEROFLEET_WORKER_DATA_TOKENIZER_H_
#define ZEROFLEET_WORKER_DATA_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::data {

class Tokenizer {
 public:
  // `name` is the value of data.tokenizer; InvalidArgument for one that is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const std::string& name);
  virtual ~Tokenizer() = default;

  // Ids are in [0, vocab()).
  virtual int64_t vocab() const = 0;
  virtual std::vector<int32_t> Encode(std::string_view text) const = 0;
  // InvalidArgument, naming the id, if one is not in the vocabulary.
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> tokens) const = 0;
};

// One token per byte: any file is text.
class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab() const override { return 256; }
  std::vector<int32_t> Encode(std::string_view text) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> tokens) const override;
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TOKENIZER_H_
