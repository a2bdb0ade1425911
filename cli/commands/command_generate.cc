// `zerofleet generate`: text that continues prompts, or answers in a chat.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/commands/checkpoint_path.h"
#include "cli/commands/command.h"
#include "cli/commands/continuation.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/prompts.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "worker/data/format.h"
#include "worker/inference/inference.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {
namespace {

struct GenerateFlags {
  std::string checkpoint, prompt, prompts, system, precision;
  ContinuationOptions continuation;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool chat = false, ema = false, json = false;
};

absl::Status CheckNumbers(const inference::Sampling& sampling) {
  const struct {
    const char* flag;
    double value;
  } numbers[] = {{"--temperature: must be 0 to 100", sampling.temperature},
                 {"--top-p: must be 0 to 1", sampling.top_p},
                 {"--min-p: must be 0 to 1", sampling.min_p},
                 {"--repetition-penalty: must be 0.01 to 100", sampling.repetition_penalty}};
  for (const auto& [flag, value] : numbers) {
    if (std::isnan(value)) return absl::InvalidArgumentError(absl::StrCat(flag, ", got nan"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const GenerateFlags& flags, bool prompt_given) {
  ZF_RETURN_IF_ERROR(CheckNumbers(flags.continuation.sampling));
  for (const std::string& stop : flags.continuation.stop) {
    if (stop.empty()) return absl::InvalidArgumentError("--stop: must not be empty");
  }
  if (prompt_given && !flags.prompts.empty()) {
    return absl::InvalidArgumentError("--prompts: one of --prompt and --prompts is enough");
  }
  if (prompt_given && flags.prompt.empty()) return absl::InvalidArgumentError("--prompt: must not be empty");
  if (!prompt_given && flags.prompts.empty() && !flags.chat) {
    return absl::InvalidArgumentError("--prompt: is missing; or give --prompts, or --chat to be asked");
  }
  if (!flags.system.empty() && !flags.chat) return absl::InvalidArgumentError("--system: is for --chat");
  return absl::OkStatus();
}

// The tokenizer of a model that was trained on text, or whose checkpoint carries a tokenizer.
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

// Answers prompts with a model and its tokenizer, and with its chat template in a chat.
class Answers {
 public:
  Answers(const GenerateFlags& flags, const Output& output) : flags_(flags), output_(output) {}

  absl::Status Load() {
    ZF_ASSIGN_OR_RETURN(step_dir_, ResolveCheckpoint(flags_.checkpoint, &output_.err));
    inference::LoadOptions options;
    options.weights = flags_.ema ? checkpoint::WeightsOf::kAverage : checkpoint::WeightsOf::kStep;
    if (!flags_.precision.empty()) {
      options.dtype = flags_.precision == "fp32" ? device::DType::kF32 : device::DType::kBF16;
    } else {
      options.dtype = std::nullopt;
    }
    ZF_ASSIGN_OR_RETURN(model_, inference::InferenceModel::Load(step_dir_, {"auto", flags_.threads}, options));
    ZF_ASSIGN_OR_RETURN(tokenizer_, TokenizerOf(*model_, step_dir_));
    continuation_ = flags_.continuation;
    return flags_.chat ? LoadTemplate() : absl::OkStatus();
  }

  // Continues one prompt and prints the result; with `alone`, JSON is indented.
  absl::Status Answer(const Prompt& prompt, bool alone) {
    const bool messages = !prompt.messages.is_null();
    if (messages && !flags_.chat) return absl::InvalidArgumentError("--chat: is what prompts with messages need");
    if (flags_.chat) {
      ZF_ASSIGN_OR_RETURN(const Continuation answer, AnswerChat(messages ? prompt.messages : ChatOf(prompt.text)));
      return Print(prompt, answer, alone);
    }
    ZF_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer_->Encode(prompt.text, /*special=*/true));
    if (!flags_.json) output_.out << prompt.text << std::flush;
    ZF_ASSIGN_OR_RETURN(const Continuation text, Continued(tokens));
    return Print(prompt, text, alone);
  }

  // Answers each line of `in`, with the whole conversation so far as its context.
  absl::Status Chat(std::istream& in) {
    nlohmann::ordered_json messages = ChatOf("");
    messages.erase(messages.size() - 1);
    for (std::string line; output_.out.good() && std::getline(in, line);) {
      if (line.empty()) continue;
      messages.push_back({{"role", "user"}, {"content", line}});
      ZF_ASSIGN_OR_RETURN(const Continuation answer, AnswerChat(messages));
      ZF_RETURN_IF_ERROR(Print({line, nullptr}, answer, /*alone=*/false));
      messages.push_back({{"role", "assistant"}, {"content", answer.text}});
    }
    return absl::OkStatus();
  }

 private:
  // Loads the template. The special token that it puts after an answer then ends an answer, in addition to the
  // tokenizer's own.
  absl::Status LoadTemplate() {
    absl::StatusOr<text::ChatTemplate> chat = text::ChatTemplate::Load(model_->data().tokenizer());
    if (absl::IsNotFound(chat.status())) {
      return absl::InvalidArgumentError(absl::StrCat("--chat: ", chat.status().message()));
    }
    ZF_RETURN_IF_ERROR(chat.status());
    chat_ = *std::move(chat);
    ZF_ASSIGN_OR_RETURN(const std::vector<int32_t> end,
                        tokenizer_->Encode(chat_->EndOfAnswer(std::time(nullptr)), /*special=*/false));
    if (end.empty()) return absl::OkStatus();
    ZF_ASSIGN_OR_RETURN(const std::string shown, tokenizer_->Decode({end.data(), 1}, /*special=*/false));
    if (shown.empty()) continuation_.end_of_turn = end.front();
    return absl::OkStatus();
  }

  nlohmann::ordered_json ChatOf(const std::string& text) const {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    if (!flags_.system.empty()) messages.push_back({{"role", "system"}, {"content", flags_.system}});
    messages.push_back({{"role", "user"}, {"content", text}});
    return messages;
  }

  absl::StatusOr<Continuation> AnswerChat(const nlohmann::ordered_json& messages) {
    ZF_ASSIGN_OR_RETURN(const std::string text, chat_->Render(messages, /*answer=*/true, std::time(nullptr)));
    ZF_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer_->Encode(text, /*special=*/false));
    return Continued(tokens);
  }

  absl::StatusOr<Continuation> Continued(const std::vector<int32_t>& tokens) {
    return Continue(*model_, *tokenizer_, tokens, continuation_, [this](const std::string& more) {
      if (!flags_.json) output_.out << more << std::flush;
      return output_.out.good();
    });
  }

  absl::Status Print(const Prompt& prompt, const Continuation& answer, bool alone) {
    if (!flags_.json) {
      output_.out << "\n" << std::flush;
      return absl::OkStatus();
    }
    const bool messages = !prompt.messages.is_null();
    nlohmann::ordered_json document = {
        {"checkpoint", step_dir_},
        {"step", model_->manifest().step()},
        {messages ? "messages" : "prompt", messages ? prompt.messages : nlohmann::ordered_json(prompt.text)},
        {"text", answer.text},
        {"prompt_tokens", answer.prompt_tokens},
        {"tokens", answer.tokens},
        {"stopped_by", answer.stopped_by}};
    if (answer.tokens > 1 && answer.seconds > 0) {
      document["tokens_per_second"] = static_cast<double>(answer.tokens - 1) / answer.seconds;
    }
    output_.out << DumpJson(document, alone ? 2 : -1) << "\n" << std::flush;
    return absl::OkStatus();
  }

  const GenerateFlags& flags_;
  const Output& output_;
  std::string step_dir_;
  std::unique_ptr<inference::InferenceModel> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_;
  ContinuationOptions continuation_;
};

absl::StatusOr<int> RunGenerate(const GenerateFlags& flags, bool prompt_given, const Output& output) {
  ZF_RETURN_IF_ERROR(CheckFlags(flags, prompt_given));
  std::vector<Prompt> prompts;
  if (prompt_given) prompts.push_back({flags.prompt, nullptr});
  if (!flags.prompts.empty()) {
    absl::StatusOr<std::vector<Prompt>> read = ReadPrompts(flags.prompts);
    if (!read.ok()) return Annotate(read.status(), "--prompts");
    prompts = *std::move(read);
  }
  if (!flags.system.empty()) ZF_RETURN_IF_ERROR(Annotate(TellFirst(flags.system, prompts), "--system"));
  Answers answers(flags, output);
  ZF_RETURN_IF_ERROR(answers.Load());
  if (prompts.empty()) ZF_RETURN_IF_ERROR(answers.Chat(std::cin));
  for (const Prompt& prompt : prompts) {
    if (!output.out.good()) break;
    if (!flags.json && &prompt != &prompts.front()) output.out << "\n";  // an answer may have several lines
    ZF_RETURN_IF_ERROR(answers.Answer(prompt, /*alone=*/prompt_given));
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
  CLI::Option* prompt = command->add_option("--prompt", flags->prompt, "The text to continue")->type_name("PROMPT");
  command
      ->add_option("--prompts", flags->prompts,
                   "A file of prompts: one a line, or JSON lines with `prompt`, or `messages` for --chat")
      ->type_name("FILE");
  command->add_flag("--chat", flags->chat,
                    "Answer, by the tokenizer's chat template: prompts, or without any each line of standard input");
  command->add_option("--system", flags->system, "What the assistant is told before a chat")->type_name("TEXT");
  command->add_option("--tokens", flags->continuation.tokens, "How many tokens to add")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->continuation.sampling.temperature,
                   "0 takes the most likely token; higher is more random")
      ->check(NumberFrom(0, 100))
      ->capture_default_str();
  command
      ->add_option("--top-k", flags->continuation.sampling.top_k, "Sample from the K most likely tokens; 0: from all")
      ->type_name("K")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  command
      ->add_option("--top-p", flags->continuation.sampling.top_p,
                   "Sample from the fewest likeliest tokens that have this probability together")
      ->type_name("P")
      ->check(NumberFrom(0, 1))
      ->capture_default_str();
  command
      ->add_option("--min-p", flags->continuation.sampling.min_p,
                   "Sample from tokens with at least this part of the likeliest one's probability")
      ->type_name("P")
      ->check(NumberFrom(0, 1))
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", flags->continuation.sampling.repetition_penalty,
                   "Above 1, tokens that have occurred are less likely")
      ->type_name("R")
      ->check(NumberFrom(0.01, 100))
      ->capture_default_str();
  Repeatable(command->add_option("--stop", flags->continuation.stop, "End before this text; may be given several times")
                 ->type_name("TEXT"));
  command->add_option("--seed", flags->continuation.seed, "The same seed gives the same text")
      ->check(WholeNumber())
      ->capture_default_str();
  command
      ->add_option("--precision", flags->precision,
                   "Of weights and activations; bf16 takes half the memory and half the time of fp32")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->default_str("fp32 for a model trained in it, else bf16");
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command->add_flag("--ema", flags->ema, "Answer with the average of the weights in place of those of the step");
  command->add_flag("--json", flags->json, "Print a JSON document for each prompt, without the prompt in its text");
  command->footer(
      "Example:\n  zerofleet generate --checkpoint checkpoints --prompt \"In the beginning\" --temperature 0.8 --top-k "
      "40\n  zerofleet generate --checkpoint checkpoints --chat --prompt \"Why is the sky blue?\"");
  command->callback([flags, prompt, &body] {
    body = [flags, prompt](const Output& output) { return RunGenerate(*flags, prompt->count() > 0, output); };
  });
}

}  // namespace zerofleet::cli
