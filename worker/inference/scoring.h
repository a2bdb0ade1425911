// How likely texts are: documents, each by itself, and the endings of questions with several to choose from.
#ifndef ZEROFLEET_WORKER_INFERENCE_SCORING_H_
#define ZEROFLEET_WORKER_INFERENCE_SCORING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker/inference/inference.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::inference {

struct DocumentLoss {
  int64_t documents = 0;
  int64_t tokens = 0, bytes = 0;  // of what is counted, and of the documents' text
  double nats = 0;                // of all tokens
  double mean_of_documents = 0;   // of the documents' mean losses, however long they are
};

// The loss of each document of a file of text or JSON lines (worker/data/tokenize.h), or of a directory of them. A
// document's tokens see those before them, of the same document. Where the tokenizer has a token that ends a text,
// that stands before a document, so that all its tokens count, and behind it, and counts as its last; elsewhere a
// document's first token does not count. A chat is a document, by `chat`, the tokenizer's template; null: it has
// none. NotFound, DataLoss for what is not such a file; InvalidArgument if no token is left to count.
absl::StatusOr<DocumentLoss> LossOfDocuments(InferenceModel& model, const text::Tokenizer& tokenizer,
                                             const text::ChatTemplate* chat, const std::string& path, int threads);

struct ChoiceScore {
  int64_t questions = 0;
  int64_t right = 0;             // the likeliest ending is the right one
  int64_t right_per_length = 0;  // the one with the most likelihood per character is
};

// Questions as JSON lines in HellaSwag's form: `ctx`, a text; `endings`, a list of at least two; `label`, the right
// one's number, also as a text. An ending follows its context behind a space. DataLoss, with the line
// before it, for what is no such question.
absl::StatusOr<ChoiceScore> ScoreChoices(InferenceModel& model, const text::Tokenizer& tokenizer,
                                         std::string_view lines);

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_SCORING_H_
