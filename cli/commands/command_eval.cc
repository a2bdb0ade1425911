// `zerofleet eval`: the mean loss of a checkpoint on a file.
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/commands/checkpoint_path.h"
#include "cli/commands/command.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "worker/inference/inference.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kSequences = 8;  // in one forward pass

struct EvalFlags {
  std::string checkpoint, data;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int64_t context = 0;
  bool json = false;
};

absl::StatusOr<int> RunEval(const EvalFlags& flags, const Output& output) {
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(flags.checkpoint));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<inference::InferenceModel> model,
                      inference::InferenceModel::Load(step_dir, {"auto", flags.threads},
                                                      {.sequences = kSequences, .context = flags.context}));
  ZF_ASSIGN_OR_RETURN(const inference::InferenceModel::Loss loss, model->MeanLoss({"--data", flags.data}));
  if (flags.json) {
    const nlohmann::ordered_json document = {
        {"checkpoint", step_dir}, {"step", model->manifest().step()},  {"data", flags.data},
        {"loss", loss.mean},      {"perplexity", std::exp(loss.mean)}, {"tokens", loss.tokens}};
    output.out << DumpJson(document, 2) << "\n";
  } else {
    output.out << absl::StrFormat("loss %.4f nats per token (perplexity %.2f) over %d tokens of %s; step %d\n",
                                  loss.mean, std::exp(loss.mean), loss.tokens, flags.data, model->manifest().step());
  }
  return 0;
}

}  // namespace

void AddEvalCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app.add_subcommand("eval", "Measure a checkpoint's mean loss on a file.");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "A step directory, or a run's checkpoint.dir for its newest checkpoint")
      ->type_name("PATH")
      ->required();
  command->add_option("--data", flags->data, "A file or directory in the format the model was trained on")
      ->required()
      ->type_name("PATH");
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command->add_option("--context", flags->context, "Tokens of a sequence, up to the model's")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->default_str("the model's");
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->footer("Example:\n  zerofleet eval --checkpoint checkpoints --data held.txt");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunEval(*flags, output); }; });
}

}  // namespace zerofleet::cli
