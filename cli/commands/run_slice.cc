// See run_slice.h.
#include "cli/commands/run_slice.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/batch_shares.h"
#include "worker/checkpoint/receipt.h"
#include "worker/model/foreign.h"

namespace zerofleet::cli {
namespace {

using checkpoint::CommittedCheckpoint;

// The oldest checkpoint with a receipt of all these steps.
const CommittedCheckpoint* ReceiptOf(const std::vector<CommittedCheckpoint>& checkpoints, const StepRange& steps) {
  const CommittedCheckpoint* found = nullptr;
  for (const CommittedCheckpoint& each : checkpoints) {
    const auto& of = each.manifest.receipt().steps();
    if (of.empty() || of.begin()->step() > steps.first || of.rbegin()->step() < steps.last) continue;
    if (found == nullptr || each.step < found->step) found = &each;
  }
  return found;
}

std::string ReceiptsText(const std::vector<CommittedCheckpoint>& checkpoints) {
  std::string text;
  for (auto each = checkpoints.rbegin(); each != checkpoints.rend(); ++each) {
    const auto& of = each->manifest.receipt().steps();
    if (of.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", of.begin()->step(), "-", of.rbegin()->step());
  }
  return text.empty() ? "the checkpoints have none" : absl::StrCat("there are some of steps ", text);
}

double LossOf(const v1::StepNumbers& numbers) { return std::bit_cast<double>(numbers.loss_bits()); }
double NormOf(const v1::StepNumbers& numbers) { return std::bit_cast<double>(numbers.grad_norm_bits()); }

}  // namespace

absl::StatusOr<RunSlice> FindSlice(const std::vector<CommittedCheckpoint>& checkpoints, const StepRange& steps,
                                   const CommittedCheckpoint* from) {
  const CommittedCheckpoint* const receipt = ReceiptOf(checkpoints, steps);
  if (receipt == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("--steps: no checkpoint has a receipt of steps ", steps.first, "-",
                                                   steps.last, "; ", ReceiptsText(checkpoints)));
  }
  RunSlice slice{.base = "", .base_step = 0, .receipt = receipt->path, .manifest = receipt->manifest, .expected = {}};
  const CommittedCheckpoint* base = from;
  for (const CommittedCheckpoint& each : checkpoints) {
    if (from == nullptr && each.step < steps.first && (base == nullptr || each.step > base->step)) base = &each;
  }
  if (base != nullptr && base->step >= steps.first) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from: ", base->path, " is at step ", base->step, ", which is not before ", steps.first));
  }
  const v1::Config& config = receipt->manifest.config();
  if (model::IsForeign(config.model())) {
    return absl::InvalidArgumentError(
        absl::StrCat("DIR: a run of model.torch (", config.model().torch(), "), whose steps only its script can do"));
  }
  if (config.offload().delayed_update().after_steps() > 0) {
    return absl::InvalidArgumentError(
        "--steps: a run with offload.delayed_update depends on when it was saved, and cannot be done again in part");
  }
  if (base != nullptr) {
    slice.base = base->path;
    slice.base_step = base->step;
    if (base->step > 0) slice.base_workers = base->manifest.world_size();  // an import has none
  }
  for (const CommittedCheckpoint& each : checkpoints) {
    const int before = each.manifest.world_size(), after = receipt->manifest.world_size();
    if (each.step <= slice.base_step || each.step >= receipt->step || before == after) continue;
    if (coordinator::SumsInSampleOrder(config)) break;
    return absl::InvalidArgumentError(absl::StrCat(
        "--steps: up to ", each.step, " were done by ", before, " workers and those up to ", receipt->step, " by ",
        after, ", on which the bits of reduce.order ", config.reduce().order(), " depend; ask for one part at a time"));
  }
  const int64_t before = base == nullptr ? 0 : base->manifest.data_cursor().samples_consumed();
  const int64_t samples = receipt->manifest.data_cursor().samples_consumed() - before;
  if (samples != (receipt->step - slice.base_step) * config.batch().global_sequences()) {
    return absl::InvalidArgumentError(absl::StrCat("--steps: between steps ", slice.base_step, " and ", receipt->step,
                                                   " the run left samples out (on_divergence: rollback) or changed its "
                                                   "batch, and cannot be done again from there"));
  }
  for (const v1::StepNumbers& each : receipt->manifest.receipt().steps()) {
    if (each.step() >= steps.first && each.step() <= steps.last) slice.expected[each.step()] = each;
  }
  return slice;
}

absl::StatusOr<int> CheckReceipts(const std::vector<CommittedCheckpoint>& checkpoints) {
  int linked = 0;
  for (size_t later = 0; later < checkpoints.size(); ++later) {
    const v1::Receipt& receipt = checkpoints[later].manifest.receipt();
    bool names_one = false;
    for (size_t earlier = later + 1; earlier < checkpoints.size(); ++earlier) {
      const CommittedCheckpoint& before = checkpoints[earlier];
      names_one = names_one || (!before.digest.empty() && before.digest == receipt.previous_xxh3_128());
      const std::string wrong = checkpoint::Contradiction(before.manifest.receipt(), before.step, receipt);
      if (wrong.empty()) continue;
      return absl::DataLossError(absl::StrCat(checkpoints[later].path, ": its receipt ", wrong, ", as against ",
                                              before.path, ": one of the two is not of this run, or was changed"));
    }
    linked += names_one ? 1 : 0;
  }
  return linked;
}

absl::StatusOr<v1::Config> SliceConfig(const RunSlice& slice, int workers, const std::string& dir) {
  v1::Config config = slice.manifest.config();
  const int before = slice.manifest.world_size();
  if (workers == 0) workers = before;
  const bool as_begun = workers == slice.base_workers;  // the receipt does not say which step was the first by `before`
  if (workers != before && !as_begun && !coordinator::SumsInSampleOrder(config)) {
    return absl::InvalidArgumentError(absl::StrCat("--workers: the bits of reduce.order ", config.reduce().order(),
                                                   " depend on the number of workers, which was ", before,
                                                   "; leave it out"));
  }
  config.mutable_parallel()->set_workers(workers);
  config.mutable_checkpoint()->set_dir(dir);
  config.mutable_checkpoint()->set_every_steps(0);
  config.mutable_checkpoint()->set_snapshot_every_steps(0);
  config.mutable_checkpoint()->set_replicate(0);
  config.mutable_evaluate()->set_every_steps(0);
  config.mutable_evaluate()->clear_best();
  config.mutable_evaluate()->set_patience(0);
  config.mutable_data()->clear_validation();
  config.mutable_data()->clear_validation_sets();
  config.mutable_data()->set_on_change("refuse");
  config.set_on_divergence("stop");
  config.mutable_divergence()->set_spike_factor(0);
  return config;
}

std::string OtherWorkersText(const RunSlice& slice, int workers) {
  if (slice.base_workers == 0 || coordinator::SumsInSampleOrder(slice.manifest.config())) return "";
  const int other = workers == slice.base_workers ? slice.manifest.world_size() : slice.base_workers;
  if (other == workers) return "";
  return absl::StrCat("; between steps ", slice.base_step, " and ", slice.manifest.step(), " the run went from ",
                      slice.base_workers, " to ", slice.manifest.world_size(), " workers, so try --workers ", other,
                      " too");
}

absl::Status CompareStep(const v1::StepNumbers& expected, const v1::StepNumbers& found) {
  if (expected.loss_bits() == found.loss_bits() && expected.grad_norm_bits() == found.grad_norm_bits()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrFormat("step %d differs: loss %.17g and gradient norm %.17g here, %.17g and %.17g by its receipt",
                      expected.step(), LossOf(found), NormOf(found), LossOf(expected), NormOf(expected)));
}

}  // namespace zerofleet::cli
