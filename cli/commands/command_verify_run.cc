// `zerofleet verify-run`: some steps of a run done again, and compared with its receipts to the bit.
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/run_slice.h"
#include "cli/commands/step_range.h"
#include "cli/config/config.h"
#include "cli/launcher/followed_steps.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/stop_signals.h"
#include "cli/launcher/temporary_directory.h"
#include "proto/json.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/receipt.h"
#include "worker/checkpoint/shard_reader.h"

namespace zerofleet::cli {
namespace {

struct VerifyRunFlags {
  std::string dir, steps, from;
  int workers = 0;
};

absl::Status CompareSteps(const RunSlice& slice, const v1::Config& config, StopSignals& signals,
                          std::ostream& progress) {
  const int64_t last = slice.expected.rbegin()->first;
  absl::Status compared;
  const absl::Status followed = FollowSteps(
      {.config = config, .resume = slice.base.empty() ? "none" : slice.base}, signals, [&](const v1::Event& event) {
        if (event.has_notice()) progress << event.notice().message() << std::endl;
        if (!event.has_step()) return true;
        const v1::StepEvent& step = event.step();
        const auto expected = slice.expected.find(step.step());
        if (expected != slice.expected.end()) {
          compared = CompareStep(expected->second, checkpoint::NumbersOf(step.step(), step.loss(), step.grad_norm()));
        }
        return compared.ok() && step.step() < last;
      });
  if (!compared.ok()) {
    return absl::DataLossError(absl::StrCat(compared.message(), OtherWorkersText(slice, config.parallel().workers())));
  }
  return followed;
}

absl::StatusOr<int> RunVerifyRun(const VerifyRunFlags& flags, const Output& output) {
  constexpr int64_t kMostSteps = checkpoint::kMostReceiptSteps;
  ZF_ASSIGN_OR_RETURN(const StepRange steps, ParseStepRange("--steps", flags.steps, kMostSteps));
  std::vector<checkpoint::CheckpointProblem> problems;
  ZF_ASSIGN_OR_RETURN(const std::vector<checkpoint::CommittedCheckpoint> checkpoints,
                      checkpoint::ListCheckpoints(flags.dir, &problems));
  if (!problems.empty()) {
    return absl::DataLossError(absl::StrCat(problems.front().path, ": ", problems.front().reason));
  }
  if (checkpoints.empty()) return absl::NotFoundError(absl::StrCat(flags.dir, ": holds no committed checkpoint"));
  ZF_ASSIGN_OR_RETURN(const int linked, CheckReceipts(checkpoints));
  for (const checkpoint::CommittedCheckpoint& each : checkpoints) {
    ZF_RETURN_IF_ERROR(checkpoint::VerifyCheckpoint(each.path));
  }
  std::unique_ptr<checkpoint::CommittedCheckpoint> from;
  if (!flags.from.empty()) {
    from = std::make_unique<checkpoint::CommittedCheckpoint>();
    from->path = flags.from;
    ZF_ASSIGN_OR_RETURN(from->manifest, checkpoint::ReadManifest(flags.from, &from->digest));
    from->step = from->manifest.step();
  }
  ZF_ASSIGN_OR_RETURN(const RunSlice slice, FindSlice(checkpoints, steps, from.get()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> directory, TemporaryDirectory::Create());
  ZF_ASSIGN_OR_RETURN(const v1::Config config, SliceConfig(slice, flags.workers, directory->path()));
  if (flags.workers > 0) {
    const std::string workers = absl::StrCat("parallel.workers=", flags.workers);
    const std::string text = DumpJson(ProtoToJson(config));
    ZF_RETURN_IF_ERROR(ParseConfig(text, slice.receipt, {{"--workers", workers}}).status());
  }
  ZF_RETURN_IF_ERROR(CheckDevice(config));
  StopSignals signals;
  const std::string begin = slice.base.empty() ? "the beginning" : slice.base;
  output.err << "receipts: " << checkpoints.size() << (checkpoints.size() == 1 ? " checkpoint" : " checkpoints")
             << " without a contradiction, " << linked << " by the digest of the one before\n"
             << "doing steps " << slice.base_step + 1 << "-" << steps.last << " again from " << begin << std::endl;
  ZF_RETURN_IF_ERROR(CompareSteps(slice, config, signals, output.err));
  output.out << "same: steps " << steps.first << "-" << steps.last
             << " have the losses and gradient norms of the receipt in " << slice.receipt << ", to the bit (from "
             << begin << ", with " << config.parallel().workers()
             << (config.parallel().workers() == 1 ? " worker" : " workers") << ")\n";
  return 0;
}

}  // namespace

void AddVerifyRunCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<VerifyRunFlags>();
  CLI::App* command =
      app.add_subcommand("verify-run", "Do some steps of a run again, and compare them with its receipts to the bit.");
  command->add_option("DIR", flags->dir, "The run's checkpoint.dir")->required()->type_name("DIR");
  command->add_option("--steps", flags->steps, "The steps to compare")->required()->type_name("FIRST-LAST");
  command
      ->add_option("--from", flags->from,
                   "The step directory that the steps go on from; else the newest before them in DIR, or the seed")
      ->type_name("PATH");
  command
      ->add_option("--workers", flags->workers, "Number of workers; another than the run's with reduce.order samples")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->footer("Example:\n  zerofleet verify-run checkpoints --steps 400-410");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunVerifyRun(*flags, output); }; });
}

}  // namespace zerofleet::cli
