// See scoring.h.
#include "worker/inference/scoring.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json_parse.h"
#include "worker/data/format.h"
#include "worker/data/token_file.h"
#include "worker/data/tokenize.h"

namespace zerofleet::inference {
namespace {

struct Question {
  std::string context;
  std::vector<std::string> endings;
  size_t label = 0;
};

absl::StatusOr<Question> QuestionOf(const std::string& line) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(line);
  if (!parsed.ok()) return absl::DataLossError(parsed.status().message());
  const nlohmann::json& object = *parsed;
  const bool is_question = object.is_object() && object.contains("ctx") && object["ctx"].is_string() &&
                           object.contains("endings") && object["endings"].is_array() && object.contains("label");
  if (!is_question) return absl::DataLossError("is no object with ctx, endings and label");
  Question question{object["ctx"], {}, 0};
  for (const auto& ending : object["endings"]) {
    if (!ending.is_string() || ending.get_ref<const std::string&>().empty()) {
      return absl::DataLossError("endings: are texts that are not empty");
    }
    question.endings.push_back(ending);
  }
  int64_t label = -1;
  const auto& given = object["label"];
  if (given.is_number_integer()) label = given.get<int64_t>();
  if (given.is_string() && !absl::SimpleAtoi(given.get_ref<const std::string&>(), &label)) label = -1;
  if (question.endings.size() < 2 || label < 0 || label >= static_cast<int64_t>(question.endings.size())) {
    return absl::DataLossError(
        absl::StrCat("label: is not the number of one of ", question.endings.size(), " endings, which are 2 or more"));
  }
  question.label = static_cast<size_t>(label);
  return question;
}

int64_t CharactersIn(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; });
}

// The nats of an ending after its context: those of the tokens of `whole` beyond as many as the context alone has.
absl::StatusOr<double> LossOfEnding(InferenceModel& model, const text::Tokenizer& tokenizer,
                                    const std::vector<int32_t>& context, const std::string& whole) {
  ZF_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.Encode(whole, /*special=*/true));
  const size_t begin = std::min(context.size(), tokens.size());
  const std::span<const int32_t> all = tokens;
  if (begin == 0 || begin == tokens.size()) return absl::DataLossError("ctx or an ending has no tokens");
  return model.ContinuationLoss(all.first(begin), all.subspan(begin));
}

absl::Status ScoreQuestion(InferenceModel& model, const text::Tokenizer& tokenizer, const Question& question,
                           ChoiceScore& score) {
  ZF_ASSIGN_OR_RETURN(const std::vector<int32_t> context, tokenizer.Encode(question.context, /*special=*/true));
  std::vector<double> losses, per_length;
  for (const std::string& ending : question.endings) {
    ZF_ASSIGN_OR_RETURN(const double loss,
                        LossOfEnding(model, tokenizer, context, absl::StrCat(question.context, " ", ending)));
    losses.push_back(loss);
    per_length.push_back(loss / static_cast<double>(CharactersIn(ending)));
  }
  const auto least = [](const std::vector<double>& of) {
    return static_cast<size_t>(std::min_element(of.begin(), of.end()) - of.begin());
  };
  ++score.questions;
  score.right += least(losses) == question.label ? 1 : 0;
  score.right_per_length += least(per_length) == question.label ? 1 : 0;
  return absl::OkStatus();
}

absl::Status AddDocument(InferenceModel& model, std::optional<int32_t> end, std::span<const int32_t> tokens,
                         DocumentLoss& loss) {
  const int32_t before = end.value_or(tokens.empty() ? 0 : tokens.front());
  const std::span<const int32_t> counted = end || tokens.empty() ? tokens : tokens.subspan(1);
  if (counted.empty()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const double nats, model.ContinuationLoss({&before, 1}, counted));
  const auto count = static_cast<int64_t>(counted.size());
  ++loss.documents;
  loss.tokens += count;
  loss.nats += nats;
  loss.mean_of_documents += nats / static_cast<double>(count);
  return absl::OkStatus();
}

absl::Status AddFile(InferenceModel& model, const text::Tokenizer& tokenizer, const text::ChatTemplate* chat,
                     const std::string& path, int threads, DocumentLoss& loss) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<data::TokenFile> file, data::TokenFile::Open(path, /*keep_open=*/false));
  ZF_ASSIGN_OR_RETURN(const data::TokenFormat format,
                      data::RecogniseFormat({path, file->bytes(), file->head(), ""}, "auto"));
  if (!format.is_text()) {
    return absl::DataLossError(absl::StrCat(path, ": is no text and no JSON lines, so its documents are not known"));
  }
  const std::optional<int32_t> end = tokenizer.end_of_text();
  std::vector<int32_t> document;
  const auto take = [&](std::span<const int32_t> ids) -> absl::Status {
    for (const int32_t id : ids) {
      const bool behind = (id & data::kEndsDocument) != 0;
      const bool expected = (id & data::kUncounted) == 0 && (end || !behind);
      if (expected) document.push_back(id & ~data::kEndsDocument);
      // A line may hold the token that ends a text, as a chat does after each message; only a text file is divided
      // there.
      if (!behind && (format.json_lines() || document.back() != end)) continue;
      // Before the first of a text file's separators, and behind its last, there is no document.
      const bool nothing = !format.json_lines() && document.size() == 1 && document.back() == end;
      if (!nothing) ZF_RETURN_IF_ERROR(AddDocument(model, end, document, loss));
      document.clear();
    }
    return absl::OkStatus();
  };
  data::TokenizeOptions options;
  options.threads = threads;
  options.end_token = format.json_lines() ? end.value_or(0) : end;  // recognised by its mark
  options.marks = true;
  options.chat = chat;
  ZF_ASSIGN_OR_RETURN(const data::TokenizeCounts counts, data::Tokenize(*file, format, tokenizer, options, take));
  loss.bytes += counts.text_bytes;
  return AddDocument(model, end, document, loss);
}

}  // namespace

absl::StatusOr<DocumentLoss> LossOfDocuments(InferenceModel& model, const text::Tokenizer& tokenizer,
                                             const text::ChatTemplate* chat, const std::string& path, int threads) {
  std::vector<std::string> files = {path};
  if (IsDirectory(path)) {
    ZF_ASSIGN_OR_RETURN(files, data::DataFilesIn(path));
  }
  DocumentLoss loss;
  for (const std::string& file : files) ZF_RETURN_IF_ERROR(AddFile(model, tokenizer, chat, file, threads, loss));
  if (loss.tokens == 0) return absl::DataLossError(absl::StrCat(path, ": has no token whose loss is known"));
  loss.mean_of_documents /= static_cast<double>(loss.documents);
  return loss;
}

absl::StatusOr<ChoiceScore> ScoreChoices(InferenceModel& model, const text::Tokenizer& tokenizer,
                                         std::string_view lines) {
  ChoiceScore score;
  int64_t number = 0;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line(lines.substr(at, end - at));
    at = end + 1;
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const absl::StatusOr<Question> question = QuestionOf(line);
    absl::Status status = question.status();
    if (status.ok()) status = ScoreQuestion(model, tokenizer, *question, score);
    if (!status.ok()) return Annotate(status, absl::StrCat(number));
  }
  if (score.questions == 0) return absl::DataLossError("has no question");
  return score;
}

}  // namespace zerofleet::inference
