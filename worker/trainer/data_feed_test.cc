// The samples of a step do not depend on the number of ranks, nor on where a run was interrupted.
#include "worker/trainer/data_feed.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/file.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet::trainer {
namespace {

constexpr int64_t kContext = 4;

class DataFeedTest : public testing::Test {
 protected:
  // Sample i is the bytes 4i, 4i+1, ...: its first token identifies it.
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 201; ++i) text += static_cast<char>(i);
    ASSERT_TRUE(WriteFileAtomically(path_, text).ok());
  }
  void TearDown() override {
    for (const char* suffix : {"", ".begin", ".end"}) ASSERT_TRUE(RemoveTree(path_ + suffix).ok());
  }

  v1::Config Config(int workers, int64_t micro_sequences) const {
    v1::Config config;
    *config.mutable_model() = model::TestModelConfig(1, 4, 1, kContext, 256);
    config.mutable_data()->add_train(path_);
    config.mutable_data()->add_validation(path_);
    config.mutable_data()->set_format("text");
    config.mutable_data()->set_tokenizer("bytes");
    config.mutable_parallel()->set_workers(workers);
    config.mutable_batch()->set_global_sequences(12);
    config.mutable_batch()->set_micro_sequences(micro_sequences);
    config.mutable_evaluate()->set_batches(2);
    config.set_seed(9);
    return config;
  }

  v1::Config Mixed(int workers) {
    const std::string text = *ReadSmallFile(path_, 1 << 10);
    EXPECT_TRUE(WriteFileAtomically(path_ + ".begin", text.substr(0, 33 * kContext + 1)).ok());
    EXPECT_TRUE(WriteFileAtomically(path_ + ".end", text.substr(33 * kContext)).ok());
    v1::Config config = Config(workers, 12 / workers);
    v1::DataConfig& data = *config.mutable_data();
    data.clear_train();
    data.add_train(path_ + ".begin");
    data.add_train(path_ + ".end");
    data.add_train_weights(4);
    data.add_train_weights(2);
    return config;
  }

  std::unique_ptr<DataFeed> Open(const v1::Config& config, int rank) {
    std::unique_ptr<DataFeed> feed = *DataFeed::Open(config);
    feed->Attach(parallel::Mesh::OfOneNode(rank, config.parallel().workers()).data(), *device_, *stream_, tokens_,
                 staging_);
    return feed;
  }

  std::vector<int> Samples(const model::MicroBatch& batch) const {
    std::vector<int> samples;
    for (int64_t i = 0; i < batch.sequences; ++i) {
      EXPECT_EQ(batch.targets[i * kContext], batch.inputs[i * kContext] + 1);
      samples.push_back(batch.inputs[i * kContext] / kContext);
    }
    return samples;
  }

  // The whole fleet's samples, rank by rank.
  std::vector<int> StepSamples(int workers, int64_t micro_sequences, int64_t step, int64_t cursor_step = 0,
                               int64_t cursor = 0, const coordinator::SkippedSamples& skipped = {}) {
    v1::Config config = Config(workers, micro_sequences);
    std::vector<int> all;
    for (int rank = 0; rank < workers; ++rank) {
      std::unique_ptr<DataFeed> feed = Open(config, rank);
      feed->Seek(cursor_step, cursor, skipped);
      for (int64_t micro = 0; micro < 12 / (workers * micro_sequences); ++micro) {
        std::vector<int> samples = Samples(*feed->TrainingBatch(step, rank, micro));
        all.insert(all.end(), samples.begin(), samples.end());
      }
    }
    return all;
  }

  const std::string path_ = JoinPath(testing::TempDir(), "zerofleet_data_feed_" + std::to_string(getpid()));
  std::unique_ptr<device::Device> device_ = *device::CreateDevice({.kind = "cpu", .threads = 1});
  std::unique_ptr<device::Stream> stream_ = *device_->CreateStream();
  int32_t tokens_[2 * 12 * kContext], staging_[zero::kTokenStages * 2 * 12 * kContext];
};

TEST_F(DataFeedTest, AStepsSamplesDoNotDependOnTheFleet) {
  for (int64_t step : {1, 4, 5}) {  // step 5 crosses the end of the first epoch of 50 samples
    std::vector<int> alone = StepSamples(1, 12, step);
    EXPECT_EQ(StepSamples(3, 2, step), alone);
    EXPECT_EQ(StepSamples(4, 3, step), alone);
  }
}

// Steps of 4, 4, 12 and then 2 samples: no gap, nothing twice, wherever the run was interrupted.
TEST_F(DataFeedTest, ChangesOfTheBatchLeaveNoSampleOut) {
  const auto samples_of = [&](int workers, int64_t step, int64_t cursor_step, int64_t cursor) {
    v1::Config config = Config(workers, 2);
    v1::BatchConfig& batch = *config.mutable_batch();
    batch.set_global_sequences(4);
    for (const auto& [from, sequences] : {std::pair<int64_t, int64_t>{3, 12}, {4, 2 * workers}}) {
      batch.add_schedule_steps(from);
      batch.add_schedule(sequences);
    }
    std::vector<int> all;
    for (int rank = 0; rank < workers; ++rank) {
      std::unique_ptr<DataFeed> feed = Open(config, rank);
      feed->Seek(cursor_step, cursor);
      EXPECT_EQ(feed->CountedTokens(step), coordinator::SequencesOf(batch, step) * kContext);
      for (int64_t micro = 0; micro < coordinator::SequencesOf(batch, step) / (2 * workers); ++micro) {
        const std::vector<int> some = Samples(*feed->TrainingBatch(step, rank, micro));
        all.insert(all.end(), some.begin(), some.end());
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  std::vector<int> all;
  for (int64_t step = 1; step <= 18; ++step) {
    const std::vector<int> now = samples_of(1, step, 0, 0);
    all.insert(all.end(), now.begin(), now.end());
    if (step > 3) continue;
    EXPECT_EQ(samples_of(2, step, 0, 0), now);
    EXPECT_EQ(samples_of(1, step, step - 1, 4 * (step - 1)), now);
  }
  // These 20 + 15 x 2 samples are the first epoch.
  std::sort(all.begin(), all.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
}

// In the order of samples rank r computes every N-th micro-batch from the r-th on; what is left over goes to nobody.
TEST_F(DataFeedTest, InTheOrderOfSamplesMicroBatchesAreDealtOut) {
  const std::vector<int> alone = StepSamples(1, 12, 1);
  for (const int workers : {1, 4, 5}) {
    v1::Config config = Config(workers, 2);
    config.mutable_reduce()->set_order("samples");
    std::vector<int> dealt;
    for (int64_t round = 0; round * workers < 6; ++round) {
      for (int rank = 0; rank < workers; ++rank) {
        std::unique_ptr<DataFeed> feed = Open(config, rank);
        const std::vector<int> samples = Samples(*feed->TrainingBatch(1, rank, round));
        EXPECT_EQ(samples.size(), 2u);
        if (round * workers + rank < 6) dealt.insert(dealt.end(), samples.begin(), samples.end());
      }
    }
    EXPECT_EQ(dealt, alone) << workers << " workers";
  }
}

TEST_F(DataFeedTest, InTheOrderOfSamplesEvaluationsAreOfTheSameMicroBatches) {
  const auto evaluated = [&](int workers) {
    v1::Config config = Config(workers, 5);
    config.mutable_reduce()->set_order("samples");
    std::set<std::vector<int>> batches;
    for (int rank = 0; rank < workers; ++rank) {
      std::unique_ptr<DataFeed> feed = Open(config, rank);
      EXPECT_EQ(feed->EvaluationPasses(), workers == 1 ? 5 : workers == 3 ? 2 : 1);
      for (int64_t pass = 0; pass < feed->EvaluationPasses(); ++pass) {
        const zero::EvaluationBatch one = *feed->Evaluation(pass);
        if (!one.counts) continue;
        EXPECT_TRUE(batches.insert(Samples(one.batch)).second);
      }
    }
    return batches;
  };
  EXPECT_EQ(evaluated(1).size(), 5u);  // 24 samples, of which the last micro-batch has 4
  EXPECT_EQ(evaluated(3), evaluated(1));
  EXPECT_EQ(evaluated(7), evaluated(1));
}

TEST_F(DataFeedTest, AnEpochVisitsEverySampleOnce) {
  std::vector<int> seen;
  for (int64_t step = 1; step <= 5; ++step) {
    std::vector<int> samples = StepSamples(1, 12, step);
    seen.insert(seen.end(), samples.begin(), samples.end());
  }
  EXPECT_EQ(std::set<int>(seen.begin(), seen.begin() + 50).size(), 50u);
}

TEST_F(DataFeedTest, AResumedRunContinuesWhereItWas) {
  std::unique_ptr<DataFeed> feed = Open(Config(1, 12), 0);
  feed->Seek(0, 0);
  EXPECT_EQ(feed->SamplesConsumed(3), 36);
  EXPECT_EQ(StepSamples(1, 12, 4, /*cursor_step=*/3, /*cursor=*/36), StepSamples(1, 12, 4));
}

// The file's samples as two sets, of 33 and of 17, which a mixture takes by two to one.
TEST_F(DataFeedTest, AMixturesSamplesDoNotDependOnTheFleet) {
  const auto step_samples = [this](int workers, int64_t step, int64_t cursor_step = 0, int64_t cursor = 0) {
    std::vector<int> all;
    for (int rank = 0; rank < workers; ++rank) {
      std::unique_ptr<DataFeed> feed = Open(Mixed(workers), rank);
      feed->Seek(cursor_step, cursor);
      const std::vector<int> samples = Samples(*feed->TrainingBatch(step, rank, 0));
      all.insert(all.end(), samples.begin(), samples.end());
    }
    return all;
  };
  std::vector<int> all;
  for (int64_t step = 1; step <= 6; ++step) {
    const std::vector<int> alone = step_samples(1, step);
    for (const int workers : {2, 3, 6}) EXPECT_EQ(step_samples(workers, step), alone) << workers;
    EXPECT_EQ(step_samples(1, step, /*cursor_step=*/step - 1, /*cursor=*/12 * (step - 1)), alone);
    all.insert(all.end(), alone.begin(), alone.end());
  }
  for (size_t cycle = 0; cycle < all.size() / 3; ++cycle) {
    EXPECT_EQ(std::count_if(all.begin() + 3 * cycle, all.begin() + 3 * cycle + 3, [](int s) { return s < 33; }), 2);
  }
}

TEST_F(DataFeedTest, SaysWhatItHasTakenOfEachSet) {
  EXPECT_TRUE(Open(Config(1, 12), 0)->Shares(3).empty());
  std::unique_ptr<DataFeed> feed = Open(Mixed(1), 0);
  coordinator::SkippedSamples skipped;
  skipped.Add(3, 15);
  feed->Seek(0, 0, skipped);
  const std::vector<v1::SetShare> shares = feed->Shares(3);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].samples(), 24);
  EXPECT_EQ(shares[1].samples(), 12);
  EXPECT_EQ(shares[0].weight(), 2);
  EXPECT_EQ(shares[1].path(), path_ + ".end");
  EXPECT_EQ(shares[0].epochs(), 24.0 / 33);
}

TEST_F(DataFeedTest, DataOfWhichNothingCountsAreRefused) {
  const std::string counts = path_ + ".begin", none = path_ + ".end";
  ASSERT_TRUE(WriteFileAtomically(counts, R"({"prompt": "ab", "completion": "cdefghijk"})").ok());
  ASSERT_TRUE(WriteFileAtomically(none, R"({"prompt": "abcdefghijk", "completion": ""})").ok());
  v1::Config config = Config(1, 1);
  v1::DataConfig& data = *config.mutable_data();
  data.set_format("jsonl");
  data.set_loss_on("assistant");
  const auto error = [&](const std::string& train, const std::string& validation) {
    data.set_train(0, train);
    data.set_validation(0, validation);
    return std::string(DataFeed::Open(config).status().message());
  };
  EXPECT_EQ(error(counts, counts), "");
  EXPECT_EQ(error(none, counts), "data.train: no token of its samples counts in the loss (data.loss_on, data.packing)");
  data.add_validation_sets("held");
  EXPECT_THAT(error(counts, none), testing::StartsWith("data.validation.held: no token of the 2 samples that are"));
}

TEST_F(DataFeedTest, EachNamedSetIsEvaluatedByItself) {
  v1::Config config = Mixed(1);
  *config.mutable_data()->mutable_validation() = config.data().train();
  for (const char* name : {"first", "second"}) config.mutable_data()->add_validation_sets(name);
  for (const int workers : {1, 3}) {
    config.mutable_parallel()->set_workers(workers);
    std::array<std::multiset<int>, 2> seen;
    for (int rank = 0; rank < workers; ++rank) {
      std::unique_ptr<DataFeed> feed = Open(config, rank);
      ASSERT_EQ(feed->validation_sets().size(), 2u);
      EXPECT_EQ(feed->validation_sets()[1].name, "second");
      EXPECT_EQ(feed->EvaluationTokens(0), 24 * kContext);
      EXPECT_EQ(feed->EvaluationTokens(1), 17 * kContext);
      for (int set = 0; set < 2; ++set) {
        for (int64_t pass = 0; pass < feed->EvaluationPasses(set); ++pass) {
          const zero::EvaluationBatch one = *feed->Evaluation(pass, set);
          if (!one.counts) continue;
          for (const int sample : Samples(one.batch)) seen[set].insert(sample);
        }
      }
    }
    EXPECT_EQ(seen[0].size(), 24u);
    EXPECT_EQ(*seen[0].rbegin(), 23);
    EXPECT_EQ(seen[1].size(), 17u);
    EXPECT_EQ(*seen[1].begin(), 33);
    EXPECT_EQ(*seen[1].rbegin(), 49);
  }
}

TEST_F(DataFeedTest, WhatIsLeftOutIsPassedOver) {
  coordinator::SkippedSamples skipped;
  skipped.Add(12, 24);
  skipped.Add(40, 43);
  for (const auto& [workers, micro] : {std::pair{1, 12}, {3, 2}}) {
    std::vector<int> taken;
    for (int64_t step = 1; step <= 3; ++step) {
      const std::vector<int> samples = StepSamples(workers, micro, step, 0, 0, skipped);
      taken.insert(taken.end(), samples.begin(), samples.end());
    }
    std::vector<int> all;
    for (int64_t step = 1; step <= 5; ++step) {
      const std::vector<int> samples = StepSamples(1, 12, step);
      all.insert(all.end(), samples.begin(), samples.end());
    }
    all.erase(all.begin() + 40, all.begin() + 43);
    all.erase(all.begin() + 12, all.begin() + 24);
    EXPECT_EQ(taken, std::vector<int>(all.begin(), all.begin() + 36)) << workers;
  }
  std::unique_ptr<DataFeed> feed = Open(Config(1, 12), 0);
  feed->Seek(1, 12, skipped);
  EXPECT_EQ(feed->SamplesConsumed(1), 12);
  EXPECT_EQ(feed->SamplesConsumed(2), 36);
  EXPECT_EQ(feed->SamplesConsumed(3), 51);
}

TEST_F(DataFeedTest, EvaluationVisitsItsSamplesOnceInEqualPasses) {
  for (int workers : {1, 2, 3, 4}) {
    v1::Config config = Config(workers, 12 / workers);
    std::multiset<int> seen;
    std::set<int64_t> passes;
    for (int rank = 0; rank < workers; ++rank) {
      std::unique_ptr<DataFeed> feed = Open(config, rank);
      passes.insert(feed->EvaluationPasses());
      for (int64_t pass = 0; pass < feed->EvaluationPasses(); ++pass) {
        zero::EvaluationBatch one = *feed->Evaluation(pass);
        if (!one.counts) continue;
        for (int sample : Samples(one.batch)) seen.insert(sample);
      }
      EXPECT_EQ(feed->EvaluationTokens(), 24 * kContext);
    }
    EXPECT_EQ(passes.size(), 1u);
    EXPECT_EQ(seen.size(), 24u) << workers;
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 24u) << workers;
  }
}

// A device loads the kernels for each size in the warm-up, so no size may be missing there.
TEST_F(DataFeedTest, FewPassesHaveEverySizeOfEvaluation) {
  for (const auto& [workers, sequences, micro, samples] : std::vector<std::array<int, 4>>{{1, 12, 12, 24},
                                                                                          {1, 12, 5, 24},
                                                                                          {3, 12, 4, 12},
                                                                                          {3, 12, 3, 12},
                                                                                          {4, 12, 3, 12},
                                                                                          {4, 8, 2, 8},
                                                                                          {3, 12, 2, 12},
                                                                                          {2, 4, 1, 4}}) {
    for (int rank = 0; rank < workers; ++rank) {
      v1::Config config = Config(workers, micro);
      config.mutable_batch()->set_global_sequences(sequences);
      config.mutable_evaluate()->set_batches(samples / sequences);
      std::unique_ptr<DataFeed> feed = Open(config, rank);
      const std::vector<int64_t> shapes = feed->EvaluationShapes();
      std::set<int64_t> warm, all;
      for (const int64_t pass : shapes) warm.insert(feed->Evaluation(pass)->batch.sequences);
      for (int64_t pass = 0; pass < feed->EvaluationPasses(); ++pass) {
        all.insert(feed->Evaluation(pass)->batch.sequences);
      }
      EXPECT_EQ(warm, all) << workers << " workers, micro " << micro << ", rank " << rank;
      EXPECT_LE(shapes.size(), 2u);
    }
  }
}

TEST_F(DataFeedTest, IdsAreCheckedOnceAndRemembered) {
  v1::Config config = Config(1, 12);
  config.mutable_model()->set_vocab(201);
  config.mutable_checkpoint()->set_dir(path_ + ".checkpoints");
  ASSERT_TRUE(CreateDirectories(config.checkpoint().dir()).ok());
  EXPECT_EQ(DataFeed::Open(config).value()->CheckIds(1, nullptr).value().bytes, 201);  // validation is the same file
  EXPECT_EQ(DataFeed::Open(config).value()->CheckIds(1, nullptr).value().bytes, 0);
  config.mutable_model()->set_vocab(200);
  EXPECT_EQ(DataFeed::Open(config).value()->CheckIds(1, nullptr).status().message(),
            "data.train[0]: " + path_ + ": token 200 is id 200; ids must be below the vocabulary, 200");
  ASSERT_TRUE(RemoveTree(config.checkpoint().dir()).ok());
  config.mutable_model()->set_vocab(201);
  for (int start = 0; start < 2; ++start) {  // nowhere to remember
    EXPECT_EQ(DataFeed::Open(config).value()->CheckIds(1, nullptr).value().bytes, 201);
  }
}

TEST_F(DataFeedTest, ErrorsNameTheKey) {
  v1::Config config = Config(1, 12);
  config.mutable_data()->add_validation("/dev/zero");
  EXPECT_EQ(DataFeed::Open(config).status().message().substr(0, 45), "data.validation[1]: /dev/zero: not a regular ");
}

}  // namespace
}  // namespace zerofleet::trainer
