// A sentencepiece tokenizer.model of the BPE kind, as in Llama 2, Mistral and Gemma; gives the ids that the
// sentencepiece library gives.
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
#include "worker/text/joints.h"
#include "worker/text/sentencepiece_model.h"
#include "worker/text/tokenizer.h"
#include "worker/text/word_cache.h"

namespace zerofleet::text {

class SentencePieceTokenizer : public Tokenizer {
 public:
  // InvalidArgument for malformed contents, and for features that are not supported, which it names: unigram, word and
  // character models, unused pieces, white space as suffixes, denormalizers.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Parse(std::string_view contents);

  int64_t vocab() const override { return static_cast<int64_t>(model_.pieces.size()); }
  std::optional<int32_t> end_of_text() const override;  // </s>
  const std::string& digest() const override { return digest_; }
  // `special`: begins with <s>, if there is one. Bytes that are not UTF-8 become U+FFFD. O(n log n) in the text's
  // length.
  absl::Status EncodeTo(std::string_view text, bool special, std::vector<int32_t>& ids) const override;
  // `special`: control pieces such as <s> are shown.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool special) const override;
  // No cut is possible: white space at the beginning of a text is treated differently from that inside it.
  size_t LastCut(std::string_view) const override { return 0; }

 private:
  absl::Status Index();
  std::string Normalize(std::string_view text) const;
  // The normalized form of the beginning of a text, and its bytes.
  Charsmap::Match NormalizeBeginning(std::string_view text) const;
  // Bytes of the longest user-defined piece at the beginning of `text`; 0 if there is none.
  size_t UserDefinedAt(std::string_view text) const;
  void AppendIds(std::string_view piece, bool& unknown_before, std::vector<int32_t>& ids) const;
  void EncodeWord(std::string_view word, std::vector<int32_t>& ids) const;
  struct Symbol;
  std::vector<Symbol> Merge(std::string_view text) const;

  SentencePieceModel model_;
  Charsmap charsmap_;
  absl::flat_hash_map<std::string, int32_t> ids_;  // ids of the pieces that text may become
  std::vector<size_t> user_defined_lengths_;       // in bytes, longest first
  absl::flat_hash_map<std::string, int32_t> user_defined_;
  std::vector<int32_t> byte_ids_;  // with byte_fallback, the ids of all bytes
  int32_t unknown_ = -1;
  Joints joints_;
  mutable SharedWords words_of_threads_;
  std::string digest_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_TOKENIZER_H_
