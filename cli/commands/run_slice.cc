// See run_slice.h.
#include "cli/commands/run_slice.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/config/config.h"
#include "cli/report/run_compare.h"
#include "cli/report/run_file.h"
#include "coordinator/batch_shares.h"
#include "proto/json.h"
#include "worker/checkpoint/receipt.h"
#include "worker/data/fingerprint.h"
#include "worker/model/foreign.h"

namespace zerofleet::cli {
namespace {

using checkpoint::CommittedCheckpoint;

// The oldest checkpoint whose receipt covers all of `steps`; null if there is none.
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
  constexpr size_t kMostShown = 4;
  std::vector<std::string> ranges;  // oldest first
  for (auto each = checkpoints.rbegin(); each != checkpoints.rend(); ++each) {
    const auto& of = each->manifest.receipt().steps();
    if (!of.empty()) ranges.push_back(absl::StrCat(of.begin()->step(), "-", of.rbegin()->step()));
  }
  if (ranges.empty()) return "the checkpoints have none";
  if (ranges.size() > kMostShown) {
    ranges[kMostShown - 2] = "...";
    ranges.erase(ranges.begin() + kMostShown - 1, ranges.end() - 1);
  }
  return absl::StrCat("there are some of steps ", absl::StrJoin(ranges, ", "));
}

// The part of a run's configuration that decides its bits, next to the number of workers and the data's contents.
// Removes the settings that change no bits according to docs/limits.md, and those that only say when a run saves,
// evaluates or gives up.
v1::Config WhatDecidesBits(v1::Config config) {
  config.clear_checkpoint();
  config.clear_restart();
  config.clear_evaluate();
  config.clear_histograms();
  config.clear_integrity();
  config.clear_memory();
  config.clear_activation();
  config.clear_buffers();
  config.clear_ema();  // the average only affects evaluations, which no receipt contains
  const v1::DelayedUpdateConfig delayed = config.offload().delayed_update();
  config.clear_offload();
  *config.mutable_offload()->mutable_delayed_update() = delayed;
  config.clear_on_divergence();
  config.clear_divergence();
  config.clear_agreement();
  config.clear_collectives();
  config.clear_init_from();
  config.clear_tokens();  // already converted to steps
  config.mutable_parallel()->clear_workers();
  config.mutable_parallel()->clear_zero_stage();
  v1::DataConfig& data = *config.mutable_data();
  data.clear_train();
  data.clear_validation();
  data.clear_validation_sets();
  data.clear_tokenizer();
  data.clear_on_change();
  return config;
}

// How the steps before the checkpoint `on_the_way` were trained differently from those of the receipt: "seed: 1, those
// after them with seed: 2". Empty if no difference is known.
std::string OtherTraining(const v1::CheckpointManifest& on_the_way, const v1::CheckpointManifest& receipt) {
  std::vector<RunFile> runs(2);
  runs[0].start["config"] = ProtoToJson(WhatDecidesBits(on_the_way.config()));
  runs[1].start["config"] = ProtoToJson(WhatDecidesBits(receipt.config()));
  const std::vector<DifferingKey> keys = DifferingKeys(runs);
  if (!keys.empty()) {
    const DifferingKey& first = keys.front();
    return absl::StrCat(first.key, ": ", first.values[0], ", those after them with ", first.key, ": ", first.values[1]);
  }
  if (!on_the_way.has_data() || !receipt.has_data()) return "";
  const auto not_read = [](int, int64_t) { return absl::UnimplementedError(""); };
  const bool same =
      data::Compare("data.train", on_the_way.data().train(), receipt.data().train(), not_read).text.empty();
  return same ? "" : "other data than those after them";
}

// Whether a run may have had fewer workers for a while between two checkpoints that the same number wrote; and whether
// it may have had `workers`.
bool MayShrink(const v1::Config& config) {
  return config.restart().min_workers() > 0 && config.restart().min_workers() < config.parallel().workers();
}
bool IsWithinReach(const v1::Config& config, int workers) {
  return workers >= config.restart().min_workers() && workers <= config.parallel().workers();
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
    if (base->step > 0) slice.base_workers = base->manifest.world_size();  // none for an imported checkpoint
  } else {
    const std::string& previous = receipt->manifest.receipt().previous_xxh3_128();
    slice.beginning_is_unknown =
        !previous.empty() && std::none_of(checkpoints.begin(), checkpoints.end(),
                                          [&](const CommittedCheckpoint& each) { return each.digest == previous; });
  }
  for (const CommittedCheckpoint& each : checkpoints) {
    if (each.step <= slice.base_step || each.step >= receipt->step) continue;
    if (const std::string other = OtherTraining(each.manifest, receipt->manifest); !other.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--steps: steps up to ", each.step, " were done with ", other, "; ask for one part at a time"));
    }
    const int before = each.manifest.world_size(), after = receipt->manifest.world_size();
    if (before == after || coordinator::SumsInSampleOrder(config)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--steps: up to ", each.step, " were done by ", before, " workers and those up to ", receipt->step, " by ",
        after, ", on which the bits of reduce.order ", config.reduce().order(), " depend; ask for one part at a time"));
  }
  const int64_t before = base == nullptr ? 0 : base->manifest.data_cursor().samples_consumed();
  const int64_t samples = receipt->manifest.data_cursor().samples_consumed() - before;
  if (samples != coordinator::SequencesBetween(config.batch(), slice.base_step, receipt->step)) {
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
  // The receipt does not say which steps were done by `before` workers, and which by the number that the run had
  // earlier.
  const bool may_have_been = workers == slice.base_workers || (MayShrink(config) && IsWithinReach(config, workers));
  if (workers != before && !may_have_been && !coordinator::SumsInSampleOrder(config)) {
    return absl::InvalidArgumentError(absl::StrCat("--workers: the bits of reduce.order ", config.reduce().order(),
                                                   " depend on the number of workers, which was ", before,
                                                   "; leave it out"));
  }
  config.mutable_parallel()->set_workers(workers);
  // The run's nodes decided which ranks are summed first; this machine's must not.
  const int64_t team = slice.manifest.team();
  if (team > 0 && !coordinator::SumsInSampleOrder(config)) config.mutable_parallel()->set_team(absl::StrCat(team));
  config.mutable_checkpoint()->set_dir(dir);
  config.mutable_checkpoint()->set_every_steps(0);
  config.mutable_checkpoint()->set_snapshot_every_steps(0);
  config.mutable_checkpoint()->set_replicate(0);
  config.mutable_histograms()->set_every_steps(0);
  config.mutable_evaluate()->set_every_steps(0);
  config.mutable_evaluate()->clear_best();
  config.mutable_evaluate()->set_patience(0);
  config.mutable_data()->clear_validation();
  config.mutable_data()->clear_validation_sets();
  config.mutable_data()->set_on_change("warn");  // the data must match the receipt, not the checkpoint to resume from
  config.set_on_divergence("stop");
  ZF_ASSIGN_OR_RETURN(const v1::Config defaults, DefaultConfig("gpt2-tiny"));
  *config.mutable_divergence() = defaults.divergence();
  config.mutable_divergence()->set_spike_factor(0);
  // Keys that decide no bit, and that may not go with this number of workers.
  config.mutable_restart()->set_min_workers(0);
  config.mutable_integrity()->set_every_steps(0);
  config.mutable_integrity()->set_replay_every_steps(0);
  // The base holds all the weights, unless some are frozen.
  const bool freezes = config.model().lora().rank() > 0 || !config.model().freeze().empty();
  if (!slice.base.empty() && !freezes) config.clear_init_from();
  return config;
}

std::string OtherCauseText(const RunSlice& slice, int workers) {
  if (slice.beginning_is_unknown) {
    return "; if the run was started with --resume PATH, name that checkpoint with --from PATH";
  }
  const v1::Config& config = slice.manifest.config();
  if (coordinator::SumsInSampleOrder(config)) return "";
  const int other = workers == slice.base_workers ? slice.manifest.world_size() : slice.base_workers;
  const bool changed = slice.base_workers != 0 && slice.base_workers != slice.manifest.world_size();
  if (changed && other != workers) {
    return absl::StrCat("; between steps ", slice.base_step, " and ", slice.manifest.step(), " the run went from ",
                        slice.base_workers, " to ", slice.manifest.world_size(), " workers, so try --workers ", other,
                        " too");
  }
  if (!MayShrink(config)) return "";
  return absl::StrCat("; the run may have had fewer workers for a while (restart.min_workers), so try --workers ",
                      config.restart().min_workers(), " and more, too");
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
