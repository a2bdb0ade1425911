// Runs with changes of the batch, averaged weights and histograms: stopped, continued, and with other numbers of
// workers.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/trainer/worker_run_testing.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;

class LearningRunTest : public WorkerRunTest {
 protected:
  v1::Config InSampleOrder(int workers, int stage) const {
    v1::Config config = Config(workers, stage);
    config.mutable_reduce()->set_order("samples");
    config.mutable_batch()->set_micro_sequences(2);
    return config;
  }
  std::string Checkpoints() const { return JoinPath(directory_, "checkpoints"); }
  void ForgetCheckpoints() const { ASSERT_TRUE(RemoveTree(Checkpoints()).ok()); }
  coordinator::CheckpointCandidate Newest() const {
    const checkpoint::CommittedCheckpoint saved = checkpoint::ListCheckpoints(Checkpoints()).value().front();
    return {saved.path, saved.step};
  }
  // The newest checkpoint's weights.
  std::vector<float> Weights(checkpoint::WeightsOf which) const {
    const checkpoint::CommittedCheckpoint saved = checkpoint::ListCheckpoints(Checkpoints()).value().front();
    std::vector<float> weights(static_cast<size_t>(checkpoint::ManifestElements(saved.manifest)));
    ZF_CHECK(checkpoint::LoadWeights(saved.path, saved.manifest, {{0, std::ssize(weights), 0}}, which,
                                     [&](int64_t offset, std::span<const float> values) {
                                       std::ranges::copy(values, weights.begin() + offset);
                                       return absl::OkStatus();
                                     })
                 .ok());
    return weights;
  }
  static std::string Notices(const Outcome& outcome) {
    std::string all;
    for (const v1::Event& event : outcome.events) absl::StrAppend(&all, event.notice().message(), "\n");
    return all;
  }
};

void RampUp(v1::Config& config) {
  v1::BatchConfig& batch = *config.mutable_batch();
  batch.set_global_sequences(4);
  for (const auto& [from, sequences] : {std::pair<int64_t, int64_t>{3, 12}, {6, 8}}) {
    batch.add_schedule_steps(from);
    batch.add_schedule(sequences);
  }
}

TEST_F(LearningRunTest, ABatchThatChangesHasTheSameBitsHoweverItIsRun) {
  v1::Config config = InSampleOrder(1, 2);
  RampUp(config);
  const Outcome whole = Run(config);
  ASSERT_TRUE(whole.results[0].ok()) << whole.results[0].status();
  ASSERT_EQ(whole.Losses().size(), 8u);
  std::vector<int64_t> tokens;
  for (const v1::Event& event : whole.events) {
    if (event.has_step()) tokens.push_back(event.step().tokens());
    if (event.has_end()) {
      EXPECT_EQ(event.end().tokens(), (2 * 4 + 3 * 12 + 3 * 8) * 8);
    }
  }
  EXPECT_EQ(tokens, (std::vector<int64_t>{32, 32, 96, 96, 96, 64, 64, 64}));
  EXPECT_EQ(checkpoint::ListCheckpoints(Checkpoints()).value().front().manifest.data_cursor().samples_consumed(),
            2 * 4 + 3 * 12 + 3 * 8);
  for (const auto& [workers, stage] : {std::pair<int, int>{2, 0}, {2, 3}}) {
    for (const int64_t stop_after : {1, 4}) {
      ForgetCheckpoints();
      v1::Config other = InSampleOrder(workers, stage);
      RampUp(other);
      const Outcome first = Run(other, {}, stop_after);
      ASSERT_TRUE(first.results[0].ok()) << first.results[0].status();
      const Outcome rest = Run(config, {Newest()});
      std::vector<double> losses = first.Losses();
      for (const double loss : rest.Losses()) losses.push_back(loss);
      EXPECT_EQ(losses, whole.Losses()) << workers << " workers, stage " << stage << ", stopped after " << stop_after;
    }
  }
}

// Steps of one micro-batch and of several, reduced one by one or once a step, in buckets or not.
TEST_F(LearningRunTest, ABatchThatChangesHasTheSameLossesInEveryStage) {
  std::vector<double> wanted;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const auto& [every, bucket_bytes] :
         {std::pair<const char*, int64_t>{"micro_batch", 0}, {"step", 0}, {"micro_batch", 65536}}) {
      v1::Config config = Config(2, stage);
      RampUp(config);
      config.mutable_batch()->set_micro_sequences(2);
      config.mutable_reduce()->set_every(every);
      config.mutable_buffers()->set_bucket_bytes(bucket_bytes);
      const Outcome outcome = Run(config);
      ASSERT_TRUE(outcome.results[0].ok()) << outcome.results[0].status();
      ASSERT_EQ(outcome.Losses().size(), 8u);
      if (wanted.empty()) wanted = outcome.Losses();
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(outcome.Losses()[i], wanted[i], 1e-5) << stage << every;
      ForgetCheckpoints();
    }
  }
}

TEST_F(LearningRunTest, AnAverageGoesOnWhereItWas) {
  v1::Config config = InSampleOrder(2, 2);
  config.mutable_ema()->set_decay(0.9);
  config.mutable_ema()->set_start_step(1);
  config.mutable_evaluate()->set_every_steps(2);
  config.mutable_evaluate()->set_weights("ema");
  const Outcome whole = Run(config);
  ASSERT_TRUE(whole.results[0].ok()) << whole.results[0].status();
  const std::vector<float> average = Weights(checkpoint::WeightsOf::kAverage);
  EXPECT_NE(average, Weights(checkpoint::WeightsOf::kStep));
  ForgetCheckpoints();
  const Outcome first = Run(config, {}, /*stop_after=*/4);
  v1::Config alone = config;
  alone.mutable_parallel()->set_workers(1);
  alone.mutable_parallel()->set_zero_stage(3);
  const Outcome rest = Run(alone, {Newest()});
  ASSERT_TRUE(rest.results[0].ok()) << rest.results[0].status();
  EXPECT_THAT(Notices(rest), testing::Not(HasSubstr("average")));
  EXPECT_EQ(Weights(checkpoint::WeightsOf::kAverage), average);
  std::map<int64_t, double> evaluations = first.Evaluations();
  evaluations.merge(rest.Evaluations());
  EXPECT_EQ(evaluations, whole.Evaluations());
  // The weights are those of a run without an average, but the evaluations differ.
  ForgetCheckpoints();
  config.clear_ema();
  config.mutable_evaluate()->set_weights("current");
  const Outcome plain = Run(config);
  EXPECT_EQ(plain.Losses(), whole.Losses());
  EXPECT_NE(plain.Evaluations(), whole.Evaluations());
}

TEST_F(LearningRunTest, AnAverageThatIsNotStoredBeginsWithTheWeights) {
  v1::Config config = Config(2, 2);
  const Outcome first = Run(config, {}, /*stop_after=*/4);
  const std::vector<float> begins = Weights(checkpoint::WeightsOf::kStep);
  config.mutable_ema()->set_decay(1);  // stays where it begins
  for (const int stage : {0, 2}) {
    config.mutable_parallel()->set_zero_stage(stage);
    ASSERT_TRUE(RemoveTree(checkpoint::StepDirectory(Checkpoints(), 8)).ok());
    const Outcome rest = Run(config, {Newest()});
    ASSERT_TRUE(rest.results[0].ok()) << rest.results[0].status();
    EXPECT_THAT(Notices(rest), HasSubstr("holds no average of the weights (ema): it begins with its weights"));
    EXPECT_EQ(Weights(checkpoint::WeightsOf::kAverage), begins);
    EXPECT_NE(Weights(checkpoint::WeightsOf::kStep), begins);
  }
  // An average that is no longer kept is left out.
  const coordinator::CheckpointCandidate averaged = Newest();
  config.clear_ema();
  config.set_steps(10);
  const Outcome without = Run(config, {averaged});
  ASSERT_TRUE(without.results[0].ok()) << without.results[0].status();
  EXPECT_THAT(Notices(without), HasSubstr("holds an average of the weights (ema), which is left out: ema.decay is 0"));
  const checkpoint::CommittedCheckpoint saved = checkpoint::ListCheckpoints(Checkpoints()).value().front();
  EXPECT_EQ(saved.step, 10);
  EXPECT_THAT(
      std::string(checkpoint::LoadWeights(saved.path, saved.manifest, {{0, 8, 0}}, checkpoint::WeightsOf::kAverage,
                                          [](int64_t, std::span<const float>) { return absl::OkStatus(); })
                      .message()),
      HasSubstr(": holds no average of the weights; a run with ema.decay keeps one"));
}

// Adapters are only meaningful with the frozen weights that they were trained with.
TEST_F(LearningRunTest, FrozenWeightsOfAnotherBaseAreRefused) {
  const auto base = [this](uint64_t seed) {
    v1::Config config = Config(1, 0);
    config.set_steps(1);
    config.set_seed(seed);
    config.mutable_checkpoint()->set_dir(JoinPath(directory_, absl::StrCat("base-", seed)));
    const Outcome made = Run(config);
    ZF_CHECK(made.results[0].ok());
    return checkpoint::StepDirectory(config.checkpoint().dir(), 1);
  };
  const std::string own = base(3);
  v1::Config config = Config(2, 2);
  config.mutable_model()->mutable_lora()->set_rank(2);
  config.mutable_model()->mutable_lora()->set_alpha(4);
  config.set_init_from(own);
  ASSERT_TRUE(Run(config).results[0].ok());
  const coordinator::CheckpointCandidate adapters = Newest();
  config.set_steps(10);
  config.set_init_from(base(4));
  const Outcome other = Run(config, {adapters});
  ASSERT_TRUE(other.ended);
  EXPECT_THAT(std::string(other.ended->message()),
              testing::AllOf(HasSubstr("but the frozen weights beside which checkpoint "), HasSubstr("; name those")));
  config.set_init_from(own);
  const Outcome same = Run(config, {adapters});
  ASSERT_TRUE(same.results[0].ok()) << same.results[0].status();
  EXPECT_EQ(same.Losses().size(), 2u);
}

// The lowest loss of other sets says nothing about this set.
TEST_F(LearningRunTest, TheLowestLossOfOtherSetsIsForgotten) {
  const auto best = [this] {
    return checkpoint::ListCheckpoints(Checkpoints()).value().front().manifest.best().step();
  };
  v1::Config config = Config(1, 0);
  config.mutable_evaluate()->set_best("all");
  ASSERT_TRUE(Run(config).results[0].ok());
  EXPECT_GT(best(), 0);
  config.set_steps(9);
  config.mutable_evaluate()->set_best("");
  ASSERT_TRUE(Run(config, {Newest()}).results[0].ok());
  EXPECT_EQ(best(), 0);
}

TEST_F(LearningRunTest, HistogramsAreToldOfEveryTensor) {
  v1::Config config = Config(2, 2);
  config.mutable_histograms()->set_every_steps(3);
  const Outcome drawn = Run(config);
  ASSERT_TRUE(drawn.results[0].ok()) << drawn.results[0].status();
  std::map<std::string, std::set<int64_t>> steps;
  int64_t parameters = 0;
  for (const v1::Event& event : drawn.events) {
    if (!event.has_histogram()) continue;
    const v1::HistogramEvent& one = event.histogram();
    steps[absl::StrCat(one.values(), "/", one.tensor())].insert(one.step());
    if (one.step() == 6 && one.values() == "gradients") parameters += one.count();
    EXPECT_EQ(one.limits_size(), one.counts_size());
    int64_t all = 0;
    for (const int64_t count : one.counts()) all += count;
    EXPECT_EQ(all, one.count());
    EXPECT_LE(one.least(), one.most());
  }
  EXPECT_EQ(parameters, drawn.seen.front().start().parameters());
  EXPECT_GT(steps.size(), 20u);
  for (const auto& [name, of] : steps) EXPECT_EQ(of, (std::set<int64_t>{3, 6})) << name;
  ForgetCheckpoints();
  config.clear_histograms();
  EXPECT_EQ(Run(config).Losses(), drawn.Losses());
}

TEST_F(LearningRunTest, HistogramsAreRefusedOfMoreTensorsThanASessionTakes) {
  v1::Config config = Config(1, 0);
  config.mutable_model()->set_layers(170);
  config.mutable_histograms()->set_every_steps(3);
  const Outcome drawn = Run(config);
  EXPECT_TRUE(absl::IsFailedPrecondition(drawn.results[0].status()));
  EXPECT_THAT(
      std::string(drawn.results[0].status().message()),
      HasSubstr("histograms.every_steps: must be 0 with more than 2000 trained tensors, got 3 and 2044 tensors"));
}

}  // namespace
}  // namespace zerofleet::trainer
