// A sentencepiece tokenizer.model of the BPE kind, as Llama 2, Mistral and Gemma have: the ids of the sentencepiece
// library.
#ifndef ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_TOKENIZER_H_
#define ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "worker/text/charsmap.h"
#include "worker/text/sentencepiece_model.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::text {

class SentencePieceTokenizer : public Tokenizer {
 public:
  // InvalidArgument for what is malformed, and by name for what is not supported: unigram, word and character models,
  // pieces that are unused, white space as suffixes, denormalizers.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Parse(std::string_view contents);

  int64_t vocab() const override { return static_cast<int64_t>(model_.pieces.size()); }
  std::optional<int32_t> end_of_text() const override;  // </s>
  const std::string& digest() const override { return digest_; }
  // `special`: behind <s>, if there is one. Bytes that are not UTF-8 become U+FFFD. O(n log n) in the text's length.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool special) const override;
  // `special`: control pieces are shown, as <s>.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool special) const override;
  // White space at the beginning of a text is not that inside it.
  size_t LastCut(std::string_view) const override { return 0; }

 private:
  absl::Status Index();
  std::string Normalize(std::string_view text) const;
  // What the beginning of a text becomes, and its bytes.
  Charsmap::Match NormalizeBeginning(std::string_view text) const;
  // The longest piece that a user has defined at the beginning of `text`; 0: none is.
  size_t UserDefinedAt(std::string_view text) const;
  void AppendIds(std::string_view piece, bool& unknown_before, std::vector<int32_t>& ids) const;
  struct Symbol;
  std::vector<Symbol> Merge(std::string_view text) const;

  SentencePieceModel model_;
  Charsmap charsmap_;
  absl::flat_hash_map<std::string, int32_t> ids_;  // of pieces that text may become
  std::vector<size_t> user_defined_lengths_;       // in bytes, longest first
  absl::flat_hash_map<std::string, int32_t> user_defined_;
  std::vector<int32_t> byte_ids_;  // with byte_fallback, of all bytes
  int32_t unknown_ = -1;
  std::string digest_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_TOKENIZER_H_
