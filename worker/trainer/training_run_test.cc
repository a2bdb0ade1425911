// A run that leaves one view and enters another goes on with the bits of a process that is new in it.
#include "worker/trainer/training_run.h"

#include <unistd.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/collective/in_process.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/thread_pool.h"
#include "worker/model/model_testing.h"
#include "worker/trainer/known_cpu_testing.h"
#include "worker/trainer/null_metrics.h"

namespace zerofleet::trainer {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kLeftAfter = 3, kSteps = 6;

v1::Start StartAt(int64_t step) {
  v1::Start start;
  start.set_step(step);
  return start;
}

class TrainingRunTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = JoinPath(testing::TempDir(), "zerofleet_training_run_" + std::to_string(getpid()));
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(JoinPath(directory_, "checkpoints")).ok());
    std::string text;
    for (int i = 0; i < 4000; ++i) text += "abcdefgh "[(i * i + i / 7) % 9];
    ASSERT_TRUE(WriteFileAtomically(JoinPath(directory_, "text.txt"), text).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  v1::Config Config(int stage) const {
    v1::Config config;
    *config.mutable_model() = model::TestModelConfig(2, 16, 2, 8, 256);
    config.mutable_data()->add_train(JoinPath(directory_, "text.txt"));
    config.mutable_data()->add_validation(JoinPath(directory_, "text.txt"));
    config.mutable_data()->set_format("text");
    config.mutable_data()->set_tokenizer("bytes");
    config.mutable_parallel()->set_workers(2);
    config.mutable_parallel()->set_zero_stage(stage);
    config.mutable_parallel()->set_tensor(1);
    config.set_precision("bf16");
    config.mutable_activation()->set_checkpointing("none");
    config.mutable_reduce()->set_every("micro_batch");
    config.mutable_batch()->set_global_sequences(12);
    config.mutable_batch()->set_micro_sequences(2);
    config.mutable_optimizer()->set_name("adamw");
    config.mutable_optimizer()->set_learning_rate(1e-2);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_epsilon(1e-8);
    config.mutable_schedule()->set_decay("constant");
    config.set_steps(kSteps);
    config.mutable_evaluate()->set_every_steps(2);
    config.mutable_evaluate()->set_batches(2);
    config.mutable_checkpoint()->set_dir(JoinPath(directory_, "checkpoints"));
    config.mutable_checkpoint()->set_keep(1);
    config.set_device("cpu");
    config.set_seed(3);
    return config;
  }

  // One worker: a device and a run, which outlive views.
  struct Worker {
    explicit Worker(const v1::Config& config, std::unique_ptr<KnownCpu> its_device = std::make_unique<KnownCpu>())
        : config(config),
          device(std::move(its_device)),
          run(*TrainingRun::Prepare(config, *device, Clock::Real(), metrics)) {}
    const v1::Config config;
    NullMetrics metrics;
    std::unique_ptr<KnownCpu> device;
    std::unique_ptr<TrainingRun> run;
  };

  // Every worker enters a view of them all, with its place in the list as its rank, runs `body`, and leaves.
  static void InOneView(const std::vector<Worker*>& workers, const std::function<void(TrainingRun&)>& body) {
    const int size = static_cast<int>(workers.size());
    std::vector<std::unique_ptr<collective::Communicator>> group =
        collective::CreateInProcessGroup(parallel::kDataGroup, size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<std::unique_ptr<collective::Communicator>> mine;
        mine.push_back(std::move(group[rank]));
        TrainingRun& run = *workers[rank]->run;
        ZF_CHECK(run.Enter(parallel::Mesh::OfOneNode(rank, size), parallel::GroupCommunicators(std::move(mine))).ok());
        body(run);
        ZF_CHECK(run.Finish().ok());
        run.Leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Trains the steps up to `last`, with the evaluations between them; appends rank 0's losses.
  static void Train(TrainingRun& run, int64_t from, int64_t last, std::vector<double>& losses) {
    for (int64_t step = from + 1; step <= last; ++step) {
      ZF_CHECK(run.Launch(step, {}).ok());
      const double loss = run.Collect()->event.loss();
      if (run.mesh().rank() == 0) losses.push_back(loss);
      if (!run.EvaluatesAfter(step)) continue;
      const double evaluated = run.Evaluate(step)->loss();
      if (run.mesh().rank() == 0) losses.push_back(evaluated);
    }
  }

  static void Note(const std::string& line) { ADD_FAILURE() << line; }

  // Trains from the seed to step kLeftAfter and commits a checkpoint; returns its directory.
  std::string TrainAndSave(const std::vector<Worker*>& workers) const {
    const std::string path = checkpoint::StepDirectory(JoinPath(directory_, "checkpoints"), kLeftAfter);
    std::mutex mutex;
    v1::CheckpointManifest manifest;
    v1::DataFingerprint fingerprint;  // rank 0's
    std::vector<v1::ShardFile> files(workers.size());
    InOneView(workers, [&](TrainingRun& run) {
      std::vector<double> losses;
      ZF_CHECK(run.Start(/*loaded=*/false, {}).ok());
      Train(run, 0, kLeftAfter, losses);
      const int rank = run.mesh().rank();
      ZF_CHECK(run.Save(kLeftAfter,
                        [&, rank](const v1::ShardWritten& written) {
                          const std::lock_guard<std::mutex> lock(mutex);
                          ZF_CHECK(written.ok());
                          manifest = written.manifest();
                          files[rank] = written.file();
                          if (written.has_data()) fingerprint = written.data();
                        })
                   .ok());
    });
    *manifest.mutable_config() = workers.front()->config;
    *manifest.mutable_data() = fingerprint;
    for (const v1::ShardFile& file : files) *manifest.add_files() = file;
    ZF_CHECK(checkpoint::CommitCheckpoint(path, manifest).ok());
    return path;
  }

  static checkpoint::ManifestIdentity Committed(const std::string& path) {
    std::string digest;
    const absl::StatusOr<v1::CheckpointManifest> manifest = checkpoint::ReadManifest(path, &digest);
    ZF_CHECK(manifest.ok());
    return {manifest->step(), digest};
  }

  static std::vector<double> GoOn(const std::vector<Worker*>& workers, const std::string& path) {
    std::vector<double> losses;
    InOneView(workers, [&](TrainingRun& run) {
      ZF_CHECK(run.loader().Load(path, Committed(path), Note).ok());
      ZF_CHECK(run.Start(/*loaded=*/true, StartAt(kLeftAfter)).ok());
      Train(run, kLeftAfter, kSteps, losses);
    });
    return losses;
  }

  std::string directory_;
};

TEST_F(TrainingRunTest, EvaluatesEachNamedSet) {
  const std::string other = JoinPath(directory_, "other.txt");
  ASSERT_TRUE(WriteFileAtomically(other, std::string(4000, 'z')).ok());
  const auto evaluated = [&](const std::vector<std::pair<const char*, std::string>>& sets) {
    v1::Config config = Config(0);
    config.mutable_parallel()->set_workers(1);
    config.mutable_data()->clear_validation();
    for (const auto& [name, path] : sets) {
      config.mutable_data()->add_validation(path);
      if (*name != '\0') config.mutable_data()->add_validation_sets(name);
    }
    Worker worker(config);
    v1::EvaluateEvent event;
    InOneView({&worker}, [&](TrainingRun& run) {
      ZF_CHECK(run.Start(/*loaded=*/false, {}).ok());
      event = *run.Evaluate(0);
    });
    return event;
  };
  const v1::EvaluateEvent both = evaluated({{"text", JoinPath(directory_, "text.txt")}, {"other", other}});
  const double text = evaluated({{"", JoinPath(directory_, "text.txt")}}).loss(), z = evaluated({{"", other}}).loss();
  ASSERT_EQ(both.sets_size(), 2);
  EXPECT_EQ(both.sets(0).name(), "text");
  EXPECT_EQ(both.sets(0).loss(), text);
  EXPECT_EQ(both.sets(1).loss(), z);
  EXPECT_NE(text, z);
  EXPECT_DOUBLE_EQ(both.loss(), (text + z) / 2);  // each has as many samples
}

// Not every target of packed documents counts, and some ranks' parts of a batch have more that count than others': the
// loss is the mean over those of the whole batch.
TEST_F(TrainingRunTest, TheLossIsPerCountedTokenWhateverTheFleet) {
  constexpr char kTokenizer[] =
      R"({"added_tokens":[{"id":4,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":true}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
  std::string tokens;
  for (int i = 0; i < 2000; ++i) tokens += {static_cast<char>(i % 400 < 200 && i % 3 == 0 ? 4 : i % 200 + 5), '\0'};
  ASSERT_TRUE(WriteFileAtomically(JoinPath(directory_, "tokens.u16"), tokens).ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(directory_, "tokenizer.json"), kTokenizer).ok());
  struct Shape {
    int stage, workers, micro;
  };
  std::vector<double> alone;
  for (const Shape& shape : {Shape{0, 1, 12}, {1, 2, 3}, {2, 3, 2}, {3, 2, 1}}) {
    v1::Config config = Config(shape.stage);
    config.set_precision("fp32");
    config.mutable_parallel()->set_workers(shape.workers);
    config.mutable_batch()->set_micro_sequences(shape.micro);
    v1::DataConfig& data = *config.mutable_data();
    data.set_train(0, JoinPath(directory_, "tokens.u16"));
    data.set_validation(0, JoinPath(directory_, "tokens.u16"));
    data.set_format("tokens_u16");
    data.set_tokenizer(JoinPath(directory_, "tokenizer.json"));
    data.set_packing(true);
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<Worker*> all;
    for (int rank = 0; rank < shape.workers; ++rank) {
      workers.push_back(std::make_unique<Worker>(config));
      all.push_back(workers.back().get());
    }
    std::vector<double> losses;
    InOneView(all, [&](TrainingRun& run) {
      ZF_CHECK(run.Start(/*loaded=*/false, {}).ok());
      Train(run, 0, 2, losses);
    });
    if (alone.empty()) alone = losses;
    ASSERT_EQ(losses.size(), 3u);  // two steps and an evaluation
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / alone[i], 1, 1e-5) << shape.stage << " " << i;
  }
  EXPECT_NEAR(alone[0], std::log(256), 0.1);
}

TEST_F(TrainingRunTest, AViewLeftLeavesNothingBehind) {
  for (int stage = 0; stage <= 3; ++stage) {
    const v1::Config config = Config(stage);
    Worker a(config), b(config), c(config);
    const std::string path = TrainAndSave({&a, &b});
    // Other ranks, and more of them, one of which is new; then fewer; then as many as before.
    for (const int size : {3, 1, 2}) {
      Worker x(config), y(config), z(config);
      const std::vector<Worker*> used = {&b, &c, &a}, fresh = {&x, &y, &z};
      const std::vector<double> expected = GoOn({fresh.begin(), fresh.begin() + size}, path);
      EXPECT_EQ(expected.size(), 3u + 2u);
      EXPECT_EQ(GoOn({used.begin(), used.begin() + size}, path), expected) << "stage " << stage << ", " << size;
    }
    ASSERT_TRUE(RemoveTree(path).ok());
  }
}

// A worker that saved has in memory what the file of its rank holds, and reads nothing; a new worker reads only that
// rank's file. In stage 0 every rank needs all files.
TEST_F(TrainingRunTest, ASurvivorReadsNoShard) {
  using From = LoadedFrom;
  for (int stage = 0; stage <= 3; ++stage) {
    const v1::Config config = Config(stage);
    Worker a(config), b(config), x(config), y(config), z(config);
    const std::string path = TrainAndSave({&a, &b});
    const std::vector<double> expected = GoOn({&x, &y}, path);
    if (stage > 0) {
      ASSERT_TRUE(RemoveOne(JoinPath(path, "rank-00000.safetensors")).ok());
    }
    for (int view = 0; view < 2; ++view) {
      std::vector<From> from(2, From::kStorage);
      std::vector<double> losses;
      InOneView({&a, &z}, [&](TrainingRun& run) {
        const absl::StatusOr<From> loaded = run.loader().Load(path, Committed(path), Note);
        ZF_CHECK(loaded.ok());
        from[run.mesh().rank()] = *loaded;
        ZF_CHECK(run.Start(/*loaded=*/true, StartAt(kLeftAfter)).ok());
        Train(run, kLeftAfter, kSteps, losses);
      });
      EXPECT_EQ(losses, expected) << "stage " << stage;
      EXPECT_EQ(from, (std::vector<From>{stage > 0 ? From::kMemory : From::kStorage, From::kStorage})) << stage;
    }
    // In the other worker's place its own snapshot is of no use.
    InOneView({&y, &a}, [&](TrainingRun& run) {
      if (run.mesh().rank() == 0) return;
      EXPECT_EQ(run.loader().Load(path, Committed(path), Note).value(), From::kStorage);
    });
    ASSERT_TRUE(RemoveTree(path).ok());
  }
}

// Somebody puts another checkpoint in the place of the one that was committed: of another step, or of another run at
// the same step. A worker that saved it and could take it from memory notices, too.
TEST_F(TrainingRunTest, AnotherCheckpointInThePlaceOfTheCommittedOneIsDamage) {
  const v1::Config config = Config(2);
  Worker a(config), b(config);
  const std::string path = TrainAndSave({&a, &b});
  const checkpoint::ManifestIdentity committed = Committed(path);
  v1::CheckpointManifest manifest = *checkpoint::ReadManifest(path);
  const auto expect_damage = [&](const std::string& what) {
    InOneView({&a, &b}, [&](TrainingRun& run) {
      const absl::Status status = run.loader().Load(path, committed, Note).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    });
  };
  manifest.set_generation(manifest.generation() + 1);
  ASSERT_TRUE(WriteFileAtomically(JoinPath(path, checkpoint::kManifestName), checkpoint::ManifestText(manifest)).ok());
  expect_damage("another checkpoint was put there since: it is of step 3 with XXH3-128 ");
  manifest.mutable_receipt()->clear_steps();
  manifest.mutable_receipt()->clear_chain_xxh3_128();
  manifest.set_step(kLeftAfter - 1);
  ASSERT_TRUE(WriteFileAtomically(JoinPath(path, checkpoint::kManifestName), checkpoint::ManifestText(manifest)).ok());
  expect_damage("is of step 2, but its directory is named for 3");
}

// Each of two ranks' status when going on with these data, and what rank 0 tells people.
TEST_F(TrainingRunTest, OtherDataAreToldOrRefused) {
  const v1::Config config = Config(2);
  Worker a(config), b(config);
  const std::string path = TrainAndSave({&a, &b});
  const auto load = [&](const v1::Config& with, std::vector<std::string>& notes) {
    std::vector<absl::Status> loaded(2);
    Worker c(with), d(with);
    notes.assign(2, "");
    InOneView({&c, &d}, [&](TrainingRun& run) {
      const int rank = run.mesh().rank();
      loaded[rank] =
          run.loader().Load(path, Committed(path), [&](const std::string& line) { notes[rank] = line; }).status();
    });
    return loaded;
  };
  std::vector<std::string> notes;
  for (const absl::Status& status : load(config, notes)) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(notes, std::vector<std::string>(2));

  const std::string other = JoinPath(directory_, "other.txt");
  ASSERT_TRUE(WriteFileAtomically(other, std::string(5000, 'o')).ok());
  v1::Config changed = config;
  changed.mutable_data()->set_train(0, other);
  for (const absl::Status& status : load(changed, notes)) EXPECT_TRUE(status.ok()) << status;
  const std::string line =
      absl::StrCat("the data are not those of checkpoint ", path, ": data.train: ", other,
                   " (5000 bytes) is read where ", JoinPath(directory_, "text.txt"), " (4000 bytes) was");
  EXPECT_EQ(notes, (std::vector<std::string>{line, ""}));
  changed.mutable_data()->set_on_change("refuse");
  for (const absl::Status& status : load(changed, notes)) {
    EXPECT_EQ(status,
              absl::FailedPreconditionError(absl::StrCat(line, "; data.on_change: warn would go on with them")));
  }

  const std::string text = ReadSmallFile(JoinPath(directory_, "text.txt"), 1 << 20).value();
  ASSERT_TRUE(WriteFileAtomically(JoinPath(directory_, "text.txt"), text + "more").ok());
  changed.mutable_data()->set_train(0, JoinPath(directory_, "text.txt"));
  for (const absl::Status& status : load(changed, notes)) EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(notes[0], HasSubstr("text.txt has grown from 4000 to 4004 bytes"));
}

// Rank 0 reports what decides bits, besides the data, and differs from the checkpoint's.
TEST_F(TrainingRunTest, OtherArithmeticIsTold) {
  v1::Config config = Config(2);
  config.mutable_reduce()->set_order("samples");
  Worker a(config), b(config);
  const std::string path = TrainAndSave({&a, &b});
  const auto note = [&](const v1::Config& with) {
    std::vector<std::string> notes(2);
    Worker c(with), d(with);
    InOneView({&c, &d}, [&](TrainingRun& run) {
      ZF_CHECK(run.loader()
                   .Load(path, Committed(path),
                         [&, rank = run.mesh().rank()](const std::string& line) { notes[rank] = line; })
                   .ok());
    });
    EXPECT_EQ(notes[1], "");
    return notes[0];
  };
  EXPECT_EQ(note(config), "");
  v1::CheckpointManifest manifest = *checkpoint::ReadManifest(path);
  manifest.add_environment()->set_name("oneDNN");
  manifest.mutable_environment(0)->set_value("0.1");
  ASSERT_TRUE(WriteFileAtomically(JoinPath(path, checkpoint::kManifestName), checkpoint::ManifestText(manifest)).ok());
  v1::Config other = config;
  other.mutable_batch()->set_micro_sequences(1);
  EXPECT_THAT(note(other), AllOf(HasSubstr("numbers may differ in their last bits from here on: oneDNN "),
                                 HasSubstr(", was 0.1, batch.micro_sequences 1, was 2")));
  // The order of ranks promises nothing about these keys, so they are not reported.
  other.mutable_reduce()->set_order("ranks");
  EXPECT_THAT(note(other), EndsWith(", was 0.1"));
}

// A bit of the saved snapshot changes in memory: the worker reads its file instead, and says so.
TEST_F(TrainingRunTest, ASurvivorWhoseMemoryHasChangedReadsItsShard) {
  for (int stage = 1; stage <= 3; ++stage) {
    const v1::Config config = Config(stage);
    Worker a(config, std::make_unique<ForgetfulCpu>()), b(config), x(config), y(config);
    const std::string path = TrainAndSave({&a, &b});
    const std::vector<double> expected = GoOn({&x, &y}, path);
    std::vector<double> losses;
    std::vector<std::string> notes(2);
    InOneView({&a, &b}, [&](TrainingRun& run) {
      const int rank = run.mesh().rank();
      const auto loaded =
          run.loader().Load(path, Committed(path), [&](const std::string& line) { notes[rank] = line; });
      ZF_CHECK(loaded.ok());
      EXPECT_EQ(*loaded, rank == 0 ? LoadedFrom::kStorage : LoadedFrom::kMemory);
      ZF_CHECK(run.Start(/*loaded=*/true, StartAt(kLeftAfter)).ok());
      Train(run, kLeftAfter, kSteps, losses);
    });
    EXPECT_EQ(losses, expected) << "stage " << stage;
    EXPECT_THAT(notes[0], HasSubstr("what this rank had in memory of step 3 has changed since: its XXH3-128 is "));
    EXPECT_EQ(notes[1], "");
    ASSERT_TRUE(RemoveTree(path).ok());
  }
}

// A run begins from weights as it does from a checkpoint of step 0 that holds nothing else, in every stage, and also
// with a different optimizer from that of the run that wrote them.
TEST_F(TrainingRunTest, WeightsAloneBeginARunAsAnImportDoes) {
  for (int stage = 0; stage <= 3; ++stage) {
    v1::Config config = Config(stage);
    Worker a(config), b(config);
    const std::string path = TrainAndSave({&a, &b});
    const std::string hf = JoinPath(directory_, "hf"), imported = JoinPath(directory_, "imported");
    ASSERT_TRUE(checkpoint::ExportHuggingFace(path, hf).ok());
    ASSERT_TRUE(checkpoint::ImportModel(hf, imported, config, {"test", 1}).ok());
    for (const char* optimizer : {"adamw", "sgd"}) {
      config.mutable_optimizer()->set_name(optimizer);
      const auto begin = [&](const std::function<absl::Status(TrainingRun&)>& load) {
        Worker x(config), y(config);
        std::vector<double> losses;
        InOneView({&x, &y}, [&](TrainingRun& run) {
          ZF_CHECK(load(run).ok());
          ZF_CHECK(run.Start(/*loaded=*/true, StartAt(0)).ok());
          Train(run, 0, kSteps, losses);
        });
        return losses;
      };
      const std::vector<double> wanted =
          begin([&](TrainingRun& run) { return run.loader().Load(imported, Committed(imported), Note).status(); });
      EXPECT_EQ(begin([&](TrainingRun& run) { return run.loader().LoadWeights(path); }), wanted)
          << stage << " " << optimizer;
    }
    for (const std::string& made : {path, hf, imported}) ASSERT_TRUE(RemoveTree(made).ok());
  }
}

TEST_F(TrainingRunTest, WeightsOfAnotherModelAreRefused) {
  Worker a(Config(2)), b(Config(2));
  const std::string path = TrainAndSave({&a, &b});
  v1::Config other = Config(2);
  other.mutable_model()->set_layers(3);
  Worker c(other);
  InOneView({&c}, [&](TrainingRun& run) {
    EXPECT_THAT(std::string(run.loader().LoadWeights(path).message()), HasSubstr("model.layers is 2 there and 3"));
    ZF_CHECK(run.Start(/*loaded=*/false, {}).ok());
  });
}

// A CPU whose peak must be measured; counts how often it was.
class MeasuredCpu : public KnownCpu {
 public:
  explicit MeasuredCpu(double flops) : ops_(pool_, flops) {}
  double datasheet_flops(device::DType) const override { return 0; }
  device::Ops& ops() override { return ops_; }
  int measured() const { return ops_.measured; }

 private:
  struct Ops : device::CpuOps {
    Ops(device::ThreadPool& pool, double its_flops) : device::CpuOps(pool), flops(its_flops) {}
    double MeasureGemmPeak(device::DType, int) override {
      ++measured;
      return flops;
    }
    const double flops;
    int measured = 0;
  };
  device::ThreadPool pool_{1};
  Ops ops_;
};

// Steps after a recovery are not held up by measurements, and MFU refers to the same peak, although the new rank's
// brief measurement gave less.
TEST_F(TrainingRunTest, ARecoveryKeepsThePeakOfTheViewBefore) {
  v1::Config config = Config(2);
  config.set_steps(1'000'000'000);  // long enough for careful measurements
  config.clear_evaluate();
  auto a = std::make_unique<MeasuredCpu>(1e12), b = std::make_unique<MeasuredCpu>(1e12);
  auto c = std::make_unique<MeasuredCpu>(0.5e12);
  const MeasuredCpu &survivor = *a, &replacement = *c;
  Worker first(config, std::move(a)), second(config, std::move(b)), third(config, std::move(c));
  std::vector<double> flops_per_share;  // of each view's last step
  const auto train = [&](TrainingRun& run, bool in_recovery) {
    v1::Start start;
    start.set_in_recovery(in_recovery);
    ZF_CHECK(run.Start(/*loaded=*/false, start).ok());
    for (int64_t step = 1; step <= 11; ++step) {
      ZF_CHECK(run.Launch(step, {}).ok());
      const v1::StepEvent event = run.Collect()->event;
      if (run.mesh().rank() == 0 && step == 11) flops_per_share.push_back(event.tokens_per_second() / event.mfu());
    }
  };
  InOneView({&first, &second}, [&](TrainingRun& run) { train(run, false); });
  const int before = survivor.measured();
  EXPECT_GT(before, 1);
  InOneView({&first, &third}, [&](TrainingRun& run) { train(run, true); });
  EXPECT_EQ(survivor.measured(), before);
  EXPECT_EQ(replacement.measured(), 1);
  ASSERT_EQ(flops_per_share.size(), 2u);
  EXPECT_NEAR(flops_per_share[1] / flops_per_share[0], 1, 1e-9);
}

TEST_F(TrainingRunTest, AViewThatCannotShareTheBatchIsRefused) {
  Worker worker(Config(2));
  std::vector<std::unique_ptr<collective::Communicator>> group =
      collective::CreateInProcessGroup(parallel::kDataGroup, 5);
  group.erase(group.begin() + 1, group.end());
  const absl::Status status =
      worker.run->Enter(parallel::Mesh::OfOneNode(0, 5), parallel::GroupCommunicators(std::move(group)));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("batch.global_sequences: 12 cannot be shared equally by 5 ranks in micro-batches of 2"));
  worker.run->Leave();  // in no view: without effect
}

}  // namespace
}  // namespace zerofleet::trainer
