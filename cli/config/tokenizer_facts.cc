// One look at a tokenizer; see tokenizer_facts.h.
#include "cli/config/tokenizer_facts.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/config/keys.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {
namespace {
constexpr char kTokenizerKey[] = "data.tokenizer", kDigestKey[] = "data.tokenizer_digest";
}  // namespace

absl::Status FindTokenizer(ConfigDraft& draft) {
  v1::DataConfig& data = *draft.config.mutable_data();
  if (!draft.Given(kTokenizerKey) && draft.stored && !draft.stored->tokenizer.empty()) {
    data.set_tokenizer(draft.stored->tokenizer);
    draft.given[kTokenizerKey] = "init_from";
  }
  const std::string name = data.tokenizer().empty() ? FindKey(kTokenizerKey)->row->value() : data.tokenizer();
  const absl::StatusOr<std::unique_ptr<text::Tokenizer>> tokenizer = text::Tokenizer::Load(name);
  if (!tokenizer.ok()) return draft.Error(kTokenizerKey, std::string(tokenizer.status().message()));
  const std::string& digest = (*tokenizer)->digest();
  if (!data.tokenizer_digest().empty() && data.tokenizer_digest() != digest) {
    return draft.Error(
        kDigestKey, digest.empty() ? absl::StrCat("needs data.tokenizer to name a file, not ", name)
                                   : absl::StrCat("is ", data.tokenizer_digest(), ", and ", digest, " that of ", name));
  }
  data.set_tokenizer_digest(digest);
  draft.tokenizer_vocab = (*tokenizer)->vocab();
  return absl::OkStatus();
}

absl::Status CheckVocabulary(const ConfigDraft& draft) {
  const int64_t vocab = draft.config.model().vocab();
  if (!draft.config.model().torch().empty()) return absl::OkStatus();  // its dataset has tokens of its own, or none
  if (draft.config.data().tokenizer_digest().empty() || vocab >= draft.tokenizer_vocab) return absl::OkStatus();
  return draft.Error("model.vocab",
                     absl::StrCat("must be >= ", draft.tokenizer_vocab, ", the vocabulary of data.tokenizer, ",
                                  draft.config.data().tokenizer(), ", got ", vocab));
}

}  // namespace zerofleet::cli
