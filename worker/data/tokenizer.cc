// The tokenizers of tokenizer.h.
#include "worker/data/tokenizer.h"

#include "absl/strings/str_cat.h"

namespace zerofleet::data {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  return absl::InvalidArgumentError(absl::StrCat("data.tokenizer: '", name, "' is not supported; must be bytes"));
}

std::vector<int32_t> ByteTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

absl::StatusOr<std::string> ByteTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (int32_t token : tokens) {
    if (token < 0 || token >= vocab()) {
      return absl::InvalidArgumentError(absl::StrCat("token ", token, " is not a byte (0 to 255)"));
    }
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace zerofleet::data
