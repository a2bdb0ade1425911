// `zerofleet generate`: text that continues a prompt, token by token.
#include <algorithm>
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
#include "cli/checkpoint_path.h"
#include "cli/command.h"
#include "cli/utf8.h"
#include "worker/data/tokenizer.h"
#include "worker/trainer/inference.h"

namespace zerofleet {
namespace {

struct GenerateFlags {
  std::string checkpoint, prompt;
  int64_t tokens = 200, top_k = 0;
  double temperature = 1;
  uint64_t seed = 1;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

absl::StatusOr<int> RunGenerate(const GenerateFlags& flags, const Output& output) {
  if (flags.prompt.empty()) return absl::InvalidArgumentError("--prompt: wants at least one character");
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(flags.checkpoint));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<InferenceModel> model,
                      InferenceModel::Load(step_dir, {"auto", flags.threads}, 1));
  const v1::DataConfig& data = model->manifest().config().data();
  if (data.format() == "tokens_u16" || data.format() == "tokens_u32") {
    return absl::InvalidArgumentError(
        absl::StrCat(step_dir, ": trained on token files, whose ids this version cannot turn into text"));
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Create(data.tokenizer()));
  std::vector<int32_t> tokens = tokenizer->Encode(flags.prompt);
  std::mt19937_64 random(flags.seed);
  Utf8Stream shown;  // a model of bytes may well write some that are no text
  output.out << shown.Add(flags.prompt) << std::flush;
  for (int64_t i = 0; i < flags.tokens; ++i) {
    ZF_ASSIGN_OR_RETURN(const std::vector<float> logits, model->NextLogits(tokens));
    // A vocabulary rounded up has ids that no text has.
    const size_t known = std::min(logits.size(), static_cast<size_t>(tokenizer->vocab()));
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const int32_t next = SampleToken(std::span(logits).first(known), flags.temperature, flags.top_k, uniform);
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
      ->add_option("--checkpoint", flags->checkpoint, "A step directory; a run's checkpoint.dir stands for its newest")
      ->required();
  command->add_option("--prompt", flags->prompt, "The text to continue")->required();
  command->add_option("--tokens", flags->tokens, "How many tokens to add")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--temperature", flags->temperature, "0 takes the likeliest token; more is more random")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", flags->top_k, "Choose among the K likeliest tokens; 0: all")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "The same seed gives the same text")->capture_default_str();
  command->add_option("--threads", flags->threads, "Compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->footer(
      "Example:\n  zerofleet generate --checkpoint checkpoints --prompt \"In the beginning\" --temperature 0.8 --top-k "
      "40");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunGenerate(*flags, output); }; });
}

}  // namespace zerofleet
