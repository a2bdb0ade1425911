// `zerofleet generate`: text that continues a prompt, token by token.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/commands/checkpoint_path.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/stop_texts.h"
#include "cli/config/utf8.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "worker/data/format.h"
#include "worker/inference/inference.h"
#include "worker/inference/sampling.h"
#include "worker/text/text_stream.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {
namespace {

struct GenerateFlags {
  std::string checkpoint, prompt;
  int64_t tokens = 200;
  inference::Sampling sampling;
  std::vector<std::string> stop;
  uint64_t seed = 1;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool json = false;
};

absl::Status CheckFlags(const GenerateFlags& flags) {
  const struct {
    const char* flag;
    double value;
  } numbers[] = {{"--temperature: must be 0 to 100", flags.sampling.temperature},
                 {"--top-p: must be 0 to 1", flags.sampling.top_p},
                 {"--min-p: must be 0 to 1", flags.sampling.min_p},
                 {"--repetition-penalty: must be 0.01 to 100", flags.sampling.repetition_penalty}};
  for (const auto& [flag, value] : numbers) {
    if (std::isnan(value)) return absl::InvalidArgumentError(absl::StrCat(flag, ", got nan"));
  }
  for (const std::string& stop : flags.stop) {
    if (stop.empty()) return absl::InvalidArgumentError("--stop: must not be empty");
  }
  return flags.prompt.empty() ? absl::InvalidArgumentError("--prompt: must not be empty") : absl::OkStatus();
}

// The tokenizer of a model that has seen text, or that carries one.
absl::StatusOr<std::unique_ptr<text::Tokenizer>> TokenizerOf(const inference::InferenceModel& model,
                                                             const std::string& step_dir) {
  const v1::DataConfig& data = model.data();
  const std::string trained = data::TrainedFormat(data);
  if (data.tokenizer() == text::kBytes && trained != "text" && trained != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("--checkpoint: ", step_dir,
                                                   " was trained on token files and carries no tokenizer; a run with "
                                                   "data.tokenizer gives its checkpoints one"));
  }
  return text::Tokenizer::Load(data.tokenizer());
}

// What is shown of a continuation: whole characters, up to a text that stops it.
class Shown {
 public:
  Shown(const text::Tokenizer& tokenizer, const std::vector<int32_t>& prompt, std::vector<std::string> stop)
      : stream_(tokenizer, prompt), stops_(std::move(stop)) {}

  absl::StatusOr<std::string> Add(int32_t token) {
    ZF_ASSIGN_OR_RETURN(const std::string text, stream_.Add(token));
    return stops_.Add(characters_.Add(text));
  }
  absl::StatusOr<std::string> Finish() {
    ZF_ASSIGN_OR_RETURN(const std::string text, stream_.Finish());
    std::string shown = stops_.Add(characters_.Add(text));
    shown += stops_.Add(characters_.Finish());
    return shown + stops_.Finish();
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  text::TextStream stream_;
  Utf8Stream characters_;  // a model of bytes may produce bytes that are not text
  StopTexts stops_;
};

absl::StatusOr<int> RunGenerate(const GenerateFlags& flags, const Output& output) {
  ZF_RETURN_IF_ERROR(CheckFlags(flags));
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(flags.checkpoint));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<inference::InferenceModel> model,
                      inference::InferenceModel::Load(step_dir, {"auto", flags.threads}, 1));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer, TokenizerOf(*model, step_dir));
  ZF_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer->Encode(flags.prompt, /*special=*/true));
  const size_t prompt_tokens = tokens.size();
  std::mt19937_64 random(flags.seed);
  Shown shown(*tokenizer, tokens, flags.stop);
  std::string text, stopped_by = "tokens";
  const auto show = [&](const std::string& more) {
    text += more;
    if (!flags.json) output.out << more << std::flush;
  };
  if (!flags.json) output.out << flags.prompt << std::flush;
  for (int64_t i = 0; i < flags.tokens && output.out.good(); ++i) {
    ZF_ASSIGN_OR_RETURN(std::vector<float> logits, model->NextLogits(tokens));
    // A vocabulary that was rounded up has ids that occur in no text.
    logits.resize(std::min(logits.size(), static_cast<size_t>(tokenizer->vocab())));
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const int32_t next = inference::SampleToken(std::move(logits), flags.sampling, tokens, uniform);
    if (next == tokenizer->end_of_text()) {
      stopped_by = "end_of_text";
      break;
    }
    tokens.push_back(next);
    ZF_ASSIGN_OR_RETURN(const std::string more, shown.Add(next));
    show(more);
    if (shown.stopped()) {
      stopped_by = "stop";
      break;
    }
  }
  ZF_ASSIGN_OR_RETURN(const std::string rest, shown.Finish());
  show(rest);
  if (!flags.json) output.out << "\n";
  if (flags.json) {
    const nlohmann::ordered_json document = {
        {"checkpoint", step_dir},         {"step", model->manifest().step()},
        {"prompt", flags.prompt},         {"text", text},
        {"prompt_tokens", prompt_tokens}, {"tokens", tokens.size() - prompt_tokens},
        {"stopped_by", stopped_by}};
    output.out << DumpJson(document, 2) << "\n";
  }
  return 0;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a checkpoint's model.");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "A step directory, or a run's checkpoint.dir for its newest checkpoint")
      ->type_name("PATH")
      ->required();
  command->add_option("--prompt", flags->prompt, "The text to continue")->required()->type_name("PROMPT");
  command->add_option("--tokens", flags->tokens, "How many tokens to add")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->sampling.temperature, "0 takes the most likely token; higher is more random")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", flags->sampling.top_k, "Sample from the K most likely tokens; 0: from all")
      ->type_name("K")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  command
      ->add_option("--top-p", flags->sampling.top_p,
                   "Sample from the fewest likeliest tokens that have this probability together")
      ->type_name("P")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--min-p", flags->sampling.min_p,
                   "Sample from tokens with at least this part of the likeliest one's probability")
      ->type_name("P")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", flags->sampling.repetition_penalty,
                   "Above 1, tokens that have occurred are less likely")
      ->type_name("R")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  command->add_option("--stop", flags->stop, "End before this text; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--seed", flags->seed, "The same seed gives the same text")
      ->check(WholeNumber())
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command->add_flag("--json", flags->json, "Print one JSON document, without the prompt in its text");
  command->footer(
      "Example:\n  zerofleet generate --checkpoint checkpoints --prompt \"In the beginning\" --temperature 0.8 --top-k "
      "40");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunGenerate(*flags, output); }; });
}

}  // namespace zerofleet::cli
