// `zerofleet eval`: the loss of a checkpoint on a file, and its answers to questions with several endings.
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/commands/checkpoint_path.h"
#include "cli/commands/command.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "worker/data/format.h"
#include "worker/inference/inference.h"
#include "worker/inference/scoring.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kSequences = 8;  // sequences in one forward pass
constexpr int64_t kLargestChoices = int64_t{1} << 30;

struct EvalFlags {
  std::string checkpoint, data, choices;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int64_t context = 0;
  bool documents = false, ema = false, json = false;
};

absl::Status CheckEvalFlags(const EvalFlags& flags) {
  if (flags.data.empty() == flags.choices.empty()) {
    return absl::InvalidArgumentError("--data: give either --data or --choices");
  }
  if (flags.documents && flags.data.empty()) return absl::InvalidArgumentError("--documents: is for --data");
  return absl::OkStatus();
}

nlohmann::ordered_json Measured(const EvalFlags& flags, const std::string& step_dir, int64_t step) {
  nlohmann::ordered_json document = {{"checkpoint", step_dir}, {"step", step}};
  if (flags.ema) document["weights"] = "ema";
  document[flags.data.empty() ? "choices" : "data"] = flags.data.empty() ? flags.choices : flags.data;
  return document;
}

// The model's tokenizer; null if the model was trained on token files whose tokenizer is not known.
std::unique_ptr<text::Tokenizer> TokenizerOfText(const inference::InferenceModel& model) {
  const v1::DataConfig& data = model.data();
  if (data.tokenizer() == text::kBytes && data::TrainedFormat(data) != "text") return nullptr;
  return text::Tokenizer::Load(data.tokenizer()).value_or(nullptr);
}

// Measures the loss on a file that is cut into samples of the context's length, as in training.
absl::Status MeasureSamples(const EvalFlags& flags, inference::InferenceModel& model, nlohmann::ordered_json document,
                            const Output& output) {
  const std::unique_ptr<text::Tokenizer> tokenizer = TokenizerOfText(model);
  ZF_ASSIGN_OR_RETURN(const inference::InferenceModel::Loss loss,
                      model.MeanLoss({"--data", flags.data}, tokenizer.get()));
  document["loss"] = loss.mean;
  document["perplexity"] = std::exp(loss.mean);
  document["tokens"] = loss.tokens;
  const double per_byte = loss.mean * static_cast<double>(loss.tokens) / static_cast<double>(loss.bytes);
  if (loss.bytes > 0) {
    document["bytes"] = loss.bytes;
    document["perplexity_per_byte"] = std::exp(per_byte);
  }
  if (flags.json) {
    output.out << DumpJson(document, 2) << "\n";
    return absl::OkStatus();
  }
  const std::string of_bytes = loss.bytes > 0 ? absl::StrFormat(", %.4f per byte", std::exp(per_byte)) : "";
  output.out << absl::StrFormat("loss %.4f nats per token (perplexity %.2f%s) over %s of %s; step %d\n", loss.mean,
                                std::exp(loss.mean), of_bytes, CountText(loss.tokens, "token"), flags.data,
                                model.manifest().step());
  return absl::OkStatus();
}

absl::Status MeasureDocuments(const EvalFlags& flags, inference::InferenceModel& model, nlohmann::ordered_json document,
                              const Output& output) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer,
                      text::Tokenizer::Load(model.data().tokenizer()));
  const absl::StatusOr<text::ChatTemplate> chat = text::ChatTemplate::Load(model.data().tokenizer());
  if (!chat.ok() && !absl::IsNotFound(chat.status())) return chat.status();
  const absl::StatusOr<inference::DocumentLoss> measured =
      inference::LossOfDocuments(model, *tokenizer, chat.ok() ? &*chat : nullptr, flags.data, flags.threads);
  if (!measured.ok()) return Annotate(measured.status(), "--data");
  const inference::DocumentLoss& loss = *measured;
  const double mean = loss.nats / static_cast<double>(loss.tokens),
               per_byte = loss.nats / static_cast<double>(loss.bytes);
  document["loss"] = mean;
  document["perplexity"] = std::exp(mean);
  document["tokens"] = loss.tokens;
  document["bytes"] = loss.bytes;
  document["perplexity_per_byte"] = std::exp(per_byte);
  document["documents"] = loss.documents;
  document["perplexity_per_document"] = std::exp(loss.mean_of_documents);
  if (flags.json) {
    output.out << DumpJson(document, 2) << "\n";
    return absl::OkStatus();
  }
  output.out << absl::StrFormat(
      "loss %.4f nats per token (perplexity %.2f, %.4f per byte, %.2f per document) over %s in %s of "
      "%s; "
      "step %d\n",
      mean, std::exp(mean), std::exp(per_byte), std::exp(loss.mean_of_documents), CountText(loss.tokens, "token"),
      CountText(loss.documents, "document"), flags.data, model.manifest().step());
  return absl::OkStatus();
}

absl::Status MeasureChoices(const EvalFlags& flags, inference::InferenceModel& model, nlohmann::ordered_json document,
                            const Output& output) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer,
                      text::Tokenizer::Load(model.data().tokenizer()));
  const absl::StatusOr<std::string> lines = ReadSmallFile(flags.choices, kLargestChoices);
  if (!lines.ok()) return Annotate(lines.status(), "--choices");
  const absl::StatusOr<inference::ChoiceScore> scored = inference::ScoreChoices(model, *tokenizer, *lines);
  if (!scored.ok()) return Annotate(scored.status(), absl::StrCat("--choices: ", flags.choices));
  const auto questions = static_cast<double>(scored->questions);
  const double accuracy = static_cast<double>(scored->right) / questions,
               per_length = static_cast<double>(scored->right_per_length) / questions;
  document["questions"] = scored->questions;
  document["accuracy"] = accuracy;
  document["accuracy_per_length"] = per_length;
  if (flags.json) {
    output.out << DumpJson(document, 2) << "\n";
    return absl::OkStatus();
  }
  output.out << absl::StrFormat("accuracy %.4f, by likelihood per character %.4f, of %s of %s; step %d\n", accuracy,
                                per_length, CountText(scored->questions, "question"), flags.choices,
                                model.manifest().step());
  return absl::OkStatus();
}

absl::StatusOr<int> RunEval(const EvalFlags& flags, const Output& output) {
  ZF_RETURN_IF_ERROR(CheckEvalFlags(flags));
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(flags.checkpoint, &output.err));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<inference::InferenceModel> model,
                      inference::InferenceModel::Load(
                          step_dir, {"auto", flags.threads},
                          {.sequences = kSequences,
                           .context = flags.context,
                           .weights = flags.ema ? checkpoint::WeightsOf::kAverage : checkpoint::WeightsOf::kStep}));
  const auto measure = flags.data.empty() ? MeasureChoices : flags.documents ? MeasureDocuments : MeasureSamples;
  ZF_RETURN_IF_ERROR(measure(flags, *model, Measured(flags, step_dir, model->manifest().step()), output));
  return 0;
}

}  // namespace

void AddEvalCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app.add_subcommand("eval", "Measure a checkpoint's loss on a file, or its answers to questions.");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "A step directory, or a run's checkpoint.dir for its newest checkpoint")
      ->type_name("PATH")
      ->required();
  command->add_option("--data", flags->data, "A file or directory in the format the model was trained on")
      ->type_name("PATH");
  command->add_flag("--documents", flags->documents, "Take each document of text or JSON lines by itself");
  command
      ->add_option("--choices", flags->choices,
                   "JSON lines in HellaSwag's form (ctx, endings, label): how often the likeliest ending is right")
      ->type_name("FILE");
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command->add_option("--context", flags->context, "Tokens of a sequence, up to the model's")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->default_str("the model's");
  command->add_flag("--ema", flags->ema, "Measure the average of the weights in place of those of the step");
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->footer("Example:\n  zerofleet eval --checkpoint checkpoints --data held.txt");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunEval(*flags, output); }; });
}

}  // namespace zerofleet::cli
