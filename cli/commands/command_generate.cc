// `zerofleet generate`: text that continues a prompt, token by token.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/commands/checkpoint_path.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/config/utf8.h"
#include "worker/data/format.h"
#include "worker/data/tokenizer.h"
#include "worker/inference/inference.h"

namespace zerofleet::cli {
namespace {

struct GenerateFlags {
  std::string checkpoint, prompt;
  int64_t tokens = 200, top_k = 0;
  double temperature = 1;
  uint64_t seed = 1;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

absl::StatusOr<int> RunGenerate(const GenerateFlags& flags, const Output& output) {
  if (std::isnan(flags.temperature)) return absl::InvalidArgumentError("--temperature: must be 0 to 100, got nan");
  if (flags.prompt.empty()) return absl::InvalidArgumentError("--prompt: must not be empty");
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(flags.checkpoint));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<inference::InferenceModel> model,
                      inference::InferenceModel::Load(step_dir, {"auto", flags.threads}, 1));
  const v1::DataConfig& data = model->manifest().config().data();
  if (const std::string trained = data::TrainedFormat(data); trained != "text" && trained != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("--checkpoint: ", step_dir,
                                                   " was trained on token files, whose tokenizer is not known here; "
                                                   "generate needs a model trained on text"));
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<data::Tokenizer> tokenizer, data::Tokenizer::Create(data.tokenizer()));
  std::vector<int32_t> tokens = tokenizer->Encode(flags.prompt);
  std::mt19937_64 random(flags.seed);
  Utf8Stream shown;  // a model of bytes may produce bytes that are not text
  output.out << shown.Add(flags.prompt) << std::flush;
  for (int64_t i = 0; i < flags.tokens && output.out.good(); ++i) {
    ZF_ASSIGN_OR_RETURN(const std::vector<float> logits, model->NextLogits(tokens));
    // A vocabulary that was rounded up has ids that occur in no text.
    const size_t known = std::min(logits.size(), static_cast<size_t>(tokenizer->vocab()));
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const int32_t next =
        inference::SampleToken(std::span(logits).first(known), flags.temperature, flags.top_k, uniform);
    tokens.push_back(next);
    ZF_ASSIGN_OR_RETURN(const std::string text, tokenizer->Decode({&next, 1}));
    output.out << shown.Add(text) << std::flush;
  }
  output.out << shown.Finish() << "\n";
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
  command->add_option("--temperature", flags->temperature, "0 takes the most likely token; higher is more random")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", flags->top_k, "Sample from the K most likely tokens; 0: from all")
      ->type_name("K")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "The same seed gives the same text")
      ->check(WholeNumber())
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command->footer(
      "Example:\n  zerofleet generate --checkpoint checkpoints --prompt \"In the beginning\" --temperature 0.8 --top-k "
      "40");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunGenerate(*flags, output); }; });
}

}  // namespace zerofleet::cli
