// How likely texts are: documents, each by itself, and the endings of multiple-choice questions.
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
  int64_t tokens = 0, bytes = 0;  // tokens that are counted; bytes of the documents' text
  double nats = 0;                // sum over the counted tokens
  double mean_of_documents = 0;   // mean of the documents' mean losses, whatever their lengths
};

// The loss of each document of a file of text or JSON lines (worker/data/tokenize.h), or of a directory of them. A
// document's tokens see only earlier tokens of the same document. Where the tokenizer has a token that ends a text, one
// is put before a document, so that all the document's tokens count, and one after it, which counts as its last;
// otherwise a document's first token does not count. A chat is a document, rendered by `chat`, the tokenizer's
// template; null if it has none. NotFound or DataLoss for what is not such a file; InvalidArgument if no token is left
// to count.
absl::StatusOr<DocumentLoss> LossOfDocuments(InferenceModel& model, const text::Tokenizer& tokenizer,
                                             const text::ChatTemplate* chat, const std::string& path, int threads);

struct ChoiceScore {
  int64_t questions = 0;
  int64_t right = 0;             // questions whose likeliest ending is right
  int64_t right_per_length = 0;  // questions whose likeliest ending per character is right
};

// Questions as JSON lines in HellaSwag's form: `ctx`, a text; `endings`, a list of at least two; `label`, the right
// one's number, from 0, possibly as a text. An ending follows its context after a space. DataLoss, beginning with the
// line's number, for a line that is no such question.
absl::StatusOr<ChoiceScore> ScoreChoices(InferenceModel& model, const text::Tokenizer& tokenizer,
                                         std::string_view lines);

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_SCORING_H_
