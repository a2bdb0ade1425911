// Which tokenizer a name stands for, and the one that needs no file.
#include "worker/text/tokenizer.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "worker/text/bpe_tokenizer.h"

namespace zerofleet::text {
namespace {

// One token per byte: any file is text.
class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab() const override { return 256; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  const std::string& digest() const override { return digest_; }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool /*special*/) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool /*special*/) const override {
    std::string text;
    text.reserve(ids.size());
    for (int32_t id : ids) {
      if (id < 0 || id >= vocab()) {
        return absl::InvalidArgumentError(absl::StrCat("token ", id, " is not a byte (0 to 255)"));
      }
      text.push_back(static_cast<char>(id));
    }
    return text;
  }

  size_t LastCut(std::string_view text) const override { return text.size(); }

 private:
  const std::string digest_;
};

}  // namespace

std::string TokenizerPath(const std::string& name) { return IsDirectory(name) ? JoinPath(name, kTokenizerFile) : name; }

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& name) {
  if (name == kBytes) return std::make_unique<ByteTokenizer>();
  return BpeTokenizer::Load(TokenizerPath(name));
}

}  // namespace zerofleet::text
