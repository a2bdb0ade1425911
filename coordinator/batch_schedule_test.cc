// A change of the batch leaves no gap in the samples, and invalid schedules are refused.
#include "coordinator/batch_schedule.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

using ScheduledChanges = std::vector<std::pair<int64_t, int64_t>>;

v1::BatchConfig ScheduledBatch(int64_t first, const ScheduledChanges& changes) {
  v1::BatchConfig batch;
  batch.set_global_sequences(first);
  for (const auto& [step, sequences] : changes) {
    batch.add_schedule_steps(step);
    batch.add_schedule(sequences);
  }
  return batch;
}

TEST(BatchSchedule, StepsTakeWhatTheEntryBeforeThemSays) {
  const v1::BatchConfig batch = ScheduledBatch(8, {{3, 16}, {4, 4}});
  const int64_t expected[] = {8, 8, 16, 4, 4, 4};
  int64_t all = 0;
  for (int64_t step = 1; step <= 6; ++step) {
    EXPECT_EQ(SequencesOf(batch, step), expected[step - 1]) << step;
    EXPECT_EQ(SequencesBetween(batch, step - 1, step), expected[step - 1]) << step;
    all += expected[step - 1];
    EXPECT_EQ(SequencesBetween(batch, 0, step), all);
    EXPECT_EQ(SequencesInAll(batch, static_cast<double>(step)), static_cast<double>(all));
    EXPECT_EQ(StepsTaking(batch, static_cast<double>(all)), static_cast<double>(step));
  }
  for (int64_t step = 1; step <= 6; ++step) {
    for (int64_t later = step; later <= 6; ++later) {
      EXPECT_EQ(SequencesBetween(batch, step, later),
                SequencesBetween(batch, 0, later) - SequencesBetween(batch, 0, step));
    }
  }
  EXPECT_EQ(StepsTaking(batch, 16 + 4), 2.25);
  EXPECT_EQ(LeastSequences(batch), 4);
  EXPECT_EQ(MostSequences(batch), 16);
  EXPECT_EQ(BatchText(batch), "4 to 16");
}

TEST(BatchSchedule, IsOneBatchWithoutEntries) {
  const v1::BatchConfig batch = ScheduledBatch(6, {});
  EXPECT_EQ(ScheduleError(batch), "");
  EXPECT_EQ(SequencesOf(batch, 1000), 6);
  EXPECT_EQ(SequencesBetween(batch, 5, 1000), 995 * 6);
  EXPECT_EQ(StepsTaking(batch, 9), 1.5);
  EXPECT_EQ(BatchText(batch), "6");
}

TEST(BatchSchedule, MustAscendFromTheSecondStep) {
  EXPECT_EQ(ScheduleError(ScheduledBatch(8, {{2, 16}, {3, 16}})), "");
  for (const ScheduledChanges& wrong : std::vector<ScheduledChanges>{
           {{1, 16}}, {{0, 8}}, {{-5, 8}}, {{4, 8}, {4, 16}}, {{4, 8}, {3, 16}}, {{2'000'000'000'000, 8}}}) {
    EXPECT_NE(ScheduleError(ScheduledBatch(8, wrong)).find("from_step must be > "), std::string::npos)
        << ScheduleError(ScheduledBatch(8, wrong));
  }
  EXPECT_EQ(ScheduleError(ScheduledBatch(8, {{4, 8}, {3, 16}})),
            "entry 2: from_step must be > 4, the one before it, and <= 1e12, got 3");
  EXPECT_EQ(ScheduleError(ScheduledBatch(8, {{4, 0}})), "entry 1: global_sequences must be 1 to 1e9, got 0");
  v1::BatchConfig uneven = ScheduledBatch(8, {{4, 8}});
  uneven.add_schedule(3);
  EXPECT_EQ(ScheduleError(uneven), "must be {from_step: S, global_sequences: N} each, got 2 batches and 1 steps");
  ScheduledChanges many;
  for (int64_t i = 0; i <= 1000; ++i) many.push_back({2 + i, 8});
  EXPECT_EQ(ScheduleError(ScheduledBatch(8, many)), "has 1001 entries; at most 1000 are allowed");
}

}  // namespace
}  // namespace zerofleet::coordinator
