// `zerofleet verify-run`: some steps of a run done again, and compared with its receipts to the bit.
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/commands/checkpoint_path.h"
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
#include "worker/trainer/data_feed.h"

namespace zerofleet::cli {
namespace {

struct VerifyRunFlags {
  std::string dir, steps, from;
  int workers = 0;
};

// Whether the checkpoint has been removed.
bool IsGone(const std::string& step_dir) {
  const absl::StatusOr<bool> there = IsThere(JoinPath(step_dir, checkpoint::kManifestName));
  return there.ok() && !*there;
}

absl::Status CompareSteps(const RunSlice& slice, const v1::Config& config, StopSignals& signals,
                          std::ostream& progress) {
  const int64_t last = slice.expected.rbegin()->first;
  absl::Status compared;
  size_t same = 0;
  const absl::Status followed = FollowSteps(
      {.config = config, .resume = slice.base.empty() ? "none" : slice.base}, signals, [&](const v1::Event& event) {
        if (event.has_notice()) progress << event.notice().message() << std::endl;
        if (!event.has_step()) return true;
        const v1::StepEvent& step = event.step();
        const auto expected = slice.expected.find(step.step());
        if (expected != slice.expected.end()) {
          compared = CompareStep(expected->second, checkpoint::NumbersOf(step.step(), step.loss(), step.grad_norm()));
          same += compared.ok() ? 1 : 0;
        }
        return compared.ok() && step.step() < last;
      });
  if (!compared.ok()) {
    return absl::DataLossError(absl::StrCat(compared.message(), OtherCauseText(slice, config.parallel().workers())));
  }
  if (!followed.ok() && !slice.base.empty() && IsGone(slice.base)) {
    return absl::NotFoundError(absl::StrCat(slice.base, ": was removed while the steps were done again from it, as ",
                                            "checkpoint.keep of a run that goes on says; ask for later steps"));
  }
  ZF_RETURN_IF_ERROR(followed);
  if (same == slice.expected.size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the run told of ", same, " of ", slice.expected.size(), " steps"));
}

using Checkpoints = std::vector<checkpoint::CommittedCheckpoint>;

absl::StatusOr<Checkpoints> CheckpointsIn(const std::string& dir) {
  std::vector<checkpoint::CheckpointProblem> problems;
  ZF_ASSIGN_OR_RETURN(Checkpoints checkpoints, checkpoint::ListCheckpoints(dir, &problems));
  for (const checkpoint::CheckpointProblem& problem : problems) {
    if (!IsGone(problem.path)) return absl::DataLossError(absl::StrCat(problem.path, ": ", problem.reason));
  }
  if (checkpoints.empty()) ZF_RETURN_IF_ERROR(CheckNoStepDirectory(dir));
  if (checkpoints.empty()) return absl::NotFoundError(absl::StrCat(dir, ": holds no committed checkpoint"));
  return checkpoints;
}

// The checkpoints that still exist, each checked to be whole: a run in progress removes old ones.
absl::StatusOr<Checkpoints> WholeOnes(const Checkpoints& checkpoints) {
  Checkpoints whole;
  for (const checkpoint::CommittedCheckpoint& each : checkpoints) {
    const absl::Status verified = checkpoint::VerifyCheckpoint(each.path);
    if (!verified.ok() && IsGone(each.path)) continue;
    ZF_RETURN_IF_ERROR(verified);
    whole.push_back(each);
  }
  return whole;
}

// Checks that the data that the configuration names here are those that the receipt's steps have read.
absl::Status CheckDataOf(const RunSlice& slice, const v1::Config& config) {
  if (!slice.manifest.has_data()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::DataFeed> feed, trainer::DataFeed::Open(config));
  const std::string change = feed->ChangesSince(slice.manifest.data()).training.text;
  if (change.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the data are not those of ", slice.receipt, ": ", change));
}

absl::StatusOr<int> RunVerifyRun(const VerifyRunFlags& flags, const Output& output) {
  constexpr int64_t kMostSteps = checkpoint::kMostReceiptSteps;
  ZF_ASSIGN_OR_RETURN(const StepRange steps, ParseStepRange("--steps", flags.steps, kMostSteps));
  ZF_ASSIGN_OR_RETURN(const Checkpoints listed, CheckpointsIn(flags.dir));
  ZF_ASSIGN_OR_RETURN(const int linked, CheckReceipts(listed));
  std::unique_ptr<checkpoint::CommittedCheckpoint> from;
  if (!flags.from.empty()) {
    from = std::make_unique<checkpoint::CommittedCheckpoint>();
    from->path = flags.from;
    ZF_ASSIGN_OR_RETURN(from->manifest, checkpoint::ReadManifest(flags.from, &from->digest));
    from->step = from->manifest.step();
  }
  ZF_RETURN_IF_ERROR(FindSlice(listed, steps, from.get()).status());  // before reading all checkpoints
  ZF_ASSIGN_OR_RETURN(const Checkpoints whole, WholeOnes(listed));
  ZF_ASSIGN_OR_RETURN(const RunSlice slice, FindSlice(whole, steps, from.get()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> directory, TemporaryDirectory::Create());
  ZF_ASSIGN_OR_RETURN(const v1::Config config, SliceConfig(slice, flags.workers, directory->path()));
  if (flags.workers > 0) {
    const std::string workers = absl::StrCat("parallel.workers=", flags.workers);
    const std::string text = DumpJson(ProtoToJson(config));
    ZF_RETURN_IF_ERROR(ParseConfig(text, slice.receipt, {{"--workers", workers}}).status());
  }
  ZF_RETURN_IF_ERROR(CheckDevice(config));
  StopSignals signals;
  const absl::StatusOr<std::string> data =
      CheckDataFiles(config, output.err, output.err_terminal, [&signals] { return signals.First() != 0; });
  if (absl::IsCancelled(data.status())) return StopExitCode(signals.First());
  ZF_RETURN_IF_ERROR(data.status());
  ZF_RETURN_IF_ERROR(CheckDataOf(slice, config));
  const std::string begin = slice.base.empty() ? "the beginning" : slice.base;
  output.err << "receipts: " << listed.size()
             << (listed.size() == 1 ? " checkpoint" : " checkpoints that do not contradict one another") << ", "
             << linked << (linked == 1 ? " names" : " name") << " the manifest before it by its digest\n"
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
