// Which steps can be repeated, from where, and how changes on the way are found.
#include "cli/commands/run_slice.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/receipt.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

// A run with 4 samples per step that was saved every 10 steps.
std::vector<checkpoint::CommittedCheckpoint> RunSavedUpTo(int64_t steps) {
  std::vector<checkpoint::CommittedCheckpoint> newest_first;
  v1::Receipt receipt;
  for (int64_t step = 1; step <= steps; ++step) {
    checkpoint::AddToReceipt(checkpoint::NumbersOf(step, 0.5 + static_cast<double>(step), 1), &receipt);
    if (step % 10 != 0) continue;
    checkpoint::CommittedCheckpoint one;
    one.path = absl::StrCat("run/step-", step);
    one.step = step;
    one.digest = absl::StrCat("digest ", step);
    one.manifest.set_step(step);
    one.manifest.set_world_size(2);
    one.manifest.set_team(3);
    one.manifest.mutable_data()->mutable_train()->add_files()->set_bytes(7);
    one.manifest.mutable_config()->mutable_batch()->set_global_sequences(4);
    one.manifest.mutable_config()->mutable_reduce()->set_order("ranks");
    one.manifest.mutable_config()->mutable_evaluate()->set_every_steps(5);
    one.manifest.mutable_data_cursor()->set_samples_consumed(4 * step);
    *one.manifest.mutable_receipt() = receipt;
    one.manifest.mutable_receipt()->set_previous_xxh3_128(step == 10 ? "" : absl::StrCat("digest ", step - 10));
    newest_first.insert(newest_first.begin(), one);
  }
  return newest_first;
}

std::string ErrorOf(const absl::StatusOr<RunSlice>& slice) { return std::string(slice.status().message()); }

TEST(RunSliceTest, GoesOnFromTheNewestCheckpointBefore) {
  const auto run = RunSavedUpTo(40);
  RunSlice slice = FindSlice(run, {24, 26}).value();
  EXPECT_EQ(slice.base, "run/step-20");
  EXPECT_EQ(slice.base_step, 20);
  EXPECT_EQ(slice.receipt, "run/step-30");
  ASSERT_EQ(slice.expected.size(), 3u);
  EXPECT_EQ(slice.expected.at(25).loss_bits(), checkpoint::NumbersOf(25, 25.5, 1).loss_bits());
  // A slice may span a checkpoint.
  slice = FindSlice(run, {20, 31}).value();
  EXPECT_EQ(slice.base, "run/step-10");
  EXPECT_EQ(slice.receipt, "run/step-40");
  slice = FindSlice(run, {3, 3}).value();
  EXPECT_EQ(slice.base, "");
  EXPECT_EQ(slice.base_step, 0);
  EXPECT_EQ(FindSlice(run, {24, 26}, &run[3])->base, "run/step-10");
}

TEST(RunSliceTest, SaysWhatCannotBeDoneAgain) {
  auto run = RunSavedUpTo(20);
  EXPECT_EQ(ErrorOf(FindSlice(run, {19, 22})),
            "--steps: no checkpoint has a receipt of steps 19-22; there are some of steps 1-10, 1-20");
  EXPECT_EQ(ErrorOf(FindSlice(RunSavedUpTo(70), {19, 82})),
            "--steps: no checkpoint has a receipt of steps 19-82; there are some of steps 1-10, 1-20, ..., 1-70");
  EXPECT_EQ(ErrorOf(FindSlice(run, {3, 4}, &run[1])), "--from: run/step-10 is at step 10, which is not before 3");
  run[0].manifest.mutable_data_cursor()->set_samples_consumed(88);
  EXPECT_THAT(ErrorOf(FindSlice(run, {12, 13})), HasSubstr("between steps 10 and 20 the run left samples out"));
  EXPECT_TRUE(FindSlice(run, {2, 3}).ok());
  run = RunSavedUpTo(20);
  run[0].manifest.mutable_config()->mutable_offload()->mutable_delayed_update()->set_after_steps(1);
  EXPECT_THAT(ErrorOf(FindSlice(run, {12, 13})), HasSubstr("offload.delayed_update"));
  run = RunSavedUpTo(20);
  run[0].manifest.mutable_config()->mutable_model()->set_torch("task:build");
  EXPECT_EQ(ErrorOf(FindSlice(run, {12, 13})),
            "DIR: a run of model.torch (task:build), whose steps only its script can do");
  for (auto& each : run) each.manifest.clear_receipt();
  EXPECT_EQ(ErrorOf(FindSlice(run, {12, 13})),
            "--steps: no checkpoint has a receipt of steps 12-13; the checkpoints have none");
}

TEST(RunSliceTest, ReceiptsAgree) {
  auto run = RunSavedUpTo(40);
  EXPECT_EQ(*CheckReceipts(run), 3);
  run.erase(run.begin() + 1);  // the newest receipt names its manifest
  EXPECT_EQ(*CheckReceipts(run), 1);
  run[2].manifest.mutable_receipt()->mutable_steps(4)->set_grad_norm_bits(7);
  EXPECT_EQ(CheckReceipts(run).status().message(),
            "run/step-40: its receipt has other numbers for step 5, as against run/step-10: one of the two is not of "
            "this run, or was changed");
}

TEST(RunSliceTest, TheConfigurationSavesAndEvaluatesNothing) {
  const RunSlice slice = FindSlice(RunSavedUpTo(20), {12, 13}).value();
  const v1::Config config = SliceConfig(slice, 0, "elsewhere").value();
  EXPECT_EQ(config.checkpoint().dir(), "elsewhere");
  EXPECT_EQ(config.parallel().workers(), 2);
  EXPECT_EQ(config.evaluate().every_steps(), 0);
  EXPECT_EQ(config.data().on_change(), "warn");
  EXPECT_EQ(config.parallel().team(), "3");
  EXPECT_EQ(SliceConfig(slice, 3, "d").status().message(),
            "--workers: the bits of reduce.order ranks depend on the number of workers, which was 2; leave it out");
  RunSlice other = slice;
  v1::Config& run = *other.manifest.mutable_config();
  run.set_on_divergence("rollback");
  run.mutable_divergence()->set_max_rollbacks(20);
  run.mutable_divergence()->set_window_steps(8);
  run.mutable_restart()->set_min_workers(2);
  run.mutable_integrity()->set_every_steps(4);
  run.set_init_from("gone");
  const v1::Config plain = SliceConfig(other, 0, "d").value();
  EXPECT_EQ(plain.divergence().max_rollbacks(), 3);
  EXPECT_EQ(plain.divergence().window_steps(), 32);
  EXPECT_EQ(plain.restart().min_workers(), 0);
  EXPECT_TRUE(plain.has_integrity()) << "a section without keys is not read back";
  EXPECT_EQ(plain.integrity().every_steps(), 0);
  EXPECT_EQ(plain.init_from(), "") << "the base has all weights";
  run.mutable_model()->add_freeze("h.0.*");
  EXPECT_EQ(SliceConfig(other, 0, "d")->init_from(), "gone");
  RunSlice samples = slice;
  samples.manifest.mutable_config()->mutable_reduce()->set_order("samples");
  EXPECT_EQ(SliceConfig(samples, 3, "d")->parallel().workers(), 3);
  EXPECT_EQ(SliceConfig(samples, 3, "d")->parallel().team(), "");
}

TEST(RunSliceTest, ANumberOfWorkersThatChangedIsTold) {
  auto run = RunSavedUpTo(40);
  for (auto& each : run) each.manifest.set_world_size(each.step > 20 ? 1 : 2);
  EXPECT_EQ(ErrorOf(FindSlice(run, {18, 22})),
            "--steps: up to 20 were done by 2 workers and those up to 30 by 1, on which the bits of reduce.order ranks "
            "depend; ask for one part at a time");
  EXPECT_TRUE(FindSlice(run, {18, 20}).ok());
  // It is not known whether two workers still did some steps after 20.
  const RunSlice slice = FindSlice(run, {21, 22}).value();
  EXPECT_EQ(SliceConfig(slice, 0, "d")->parallel().workers(), 1);
  EXPECT_EQ(SliceConfig(slice, 2, "d")->parallel().workers(), 2);
  EXPECT_FALSE(SliceConfig(slice, 3, "d").ok());
  EXPECT_EQ(OtherCauseText(slice, 1),
            "; between steps 20 and 30 the run went from 2 to 1 workers, so try --workers 2 too");
  EXPECT_EQ(OtherCauseText(slice, 2),
            "; between steps 20 and 30 the run went from 2 to 1 workers, so try --workers 1 too");
  EXPECT_EQ(OtherCauseText(FindSlice(run, {31, 32}).value(), 1), "");
  for (auto& each : run) each.manifest.mutable_config()->mutable_reduce()->set_order("samples");
  EXPECT_TRUE(FindSlice(run, {18, 22}).ok());
  EXPECT_EQ(OtherCauseText(FindSlice(run, {21, 22}).value(), 1), "");
}

TEST(RunSliceTest, ARunMayHaveShrunkForAWhile) {
  auto run = RunSavedUpTo(20);
  for (auto& each : run) {
    each.manifest.mutable_config()->mutable_parallel()->set_workers(2);
    each.manifest.mutable_config()->mutable_restart()->set_min_workers(1);
  }
  const RunSlice slice = FindSlice(run, {13, 14}).value();
  EXPECT_EQ(OtherCauseText(slice, 2),
            "; the run may have had fewer workers for a while (restart.min_workers), so try --workers 1 and more, too");
  EXPECT_EQ(OtherCauseText(slice, 1), OtherCauseText(slice, 2));
  EXPECT_EQ(SliceConfig(slice, 1, "d")->parallel().workers(), 1);
  EXPECT_FALSE(SliceConfig(slice, 3, "d").ok());
  run[0].manifest.mutable_config()->mutable_restart()->set_min_workers(2);
  EXPECT_EQ(OtherCauseText(FindSlice(run, {13, 14}).value(), 2), "");
}

// A resume may change the configuration: the steps before its checkpoint were trained differently.
TEST(RunSliceTest, AnotherConfigurationOnTheWayIsTold) {
  auto run = RunSavedUpTo(40);
  for (auto& each : run) {
    v1::Config& config = *each.manifest.mutable_config();
    config.mutable_optimizer()->set_learning_rate(each.step > 20 ? 0.25 : 0.5);
    config.mutable_checkpoint()->set_every_steps(each.step);
    config.mutable_parallel()->set_zero_stage(each.step > 20 ? 1 : 2);
    config.mutable_histograms()->set_every_steps(each.step);
    config.mutable_buffers()->set_bucket_bytes(each.step > 20 ? 0 : 65536);
    config.mutable_ema()->set_decay(each.step > 20 ? 0.5 : 0);
    config.mutable_data()->add_train(absl::StrCat("moved to ", each.step));
  }
  EXPECT_EQ(ErrorOf(FindSlice(run, {18, 22})),
            "--steps: steps up to 20 were done with optimizer.learning_rate: 0.5, those after them with "
            "optimizer.learning_rate: 0.25; ask for one part at a time");
  EXPECT_TRUE(FindSlice(run, {18, 20}).ok());
  EXPECT_TRUE(FindSlice(run, {21, 32}).ok());
  run = RunSavedUpTo(40);
  for (auto& each : run) {
    if (each.step > 20) each.manifest.mutable_data()->mutable_train()->mutable_files(0)->set_bytes(9);
  }
  EXPECT_EQ(ErrorOf(FindSlice(run, {18, 22})),
            "--steps: steps up to 20 were done with other data than those after them; ask for one part at a time");
  EXPECT_TRUE(FindSlice(run, {21, 32}).ok());
  run[1].manifest.clear_data();  // the data are not known
  EXPECT_TRUE(FindSlice(run, {28, 32}).ok());
}

TEST(RunSliceTest, ARunMayHaveBegunElsewhere) {
  auto run = RunSavedUpTo(20);
  EXPECT_EQ(OtherCauseText(FindSlice(run, {3, 4}).value(), 2), "");
  run[1].manifest.mutable_receipt()->set_previous_xxh3_128("of an import");
  EXPECT_EQ(OtherCauseText(FindSlice(run, {3, 4}).value(), 2),
            "; if the run was started with --resume PATH, name that checkpoint with --from PATH");
  EXPECT_EQ(OtherCauseText(FindSlice(run, {13, 14}).value(), 2), "");
}

TEST(RunSliceTest, OneBitIsADifference) {
  const v1::StepNumbers expected = checkpoint::NumbersOf(7, 0.5, 2);
  EXPECT_TRUE(CompareStep(expected, expected).ok());
  v1::StepNumbers other = expected;
  other.set_loss_bits(expected.loss_bits() ^ 1);
  EXPECT_EQ(CompareStep(expected, other).message(),
            "step 7 differs: loss 0.50000000000000011 and gradient norm 2 here, 0.5 and 2 by its receipt");
  other = expected;
  other.set_grad_norm_bits(expected.grad_norm_bits() ^ 1);
  EXPECT_FALSE(CompareStep(expected, other).ok());
}

}  // namespace
}  // namespace zerofleet::cli
