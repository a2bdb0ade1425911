// The fixture of the tests that run whole workers: a small run, its workers as threads, the real coordinator core.
#ifndef ZEROFLEET_WORKER_TRAINER_WORKER_RUN_TESTING_H_
#define ZEROFLEET_WORKER_TRAINER_WORKER_RUN_TESTING_H_

#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/trainer/known_cpu_testing.h"
#include "worker/trainer/memory_fleet_testing.h"
#include "worker/trainer/null_metrics.h"
#include "worker/trainer/worker_run.h"

namespace zerofleet::trainer {

class SkipCounter : public NullMetrics {
 public:
  void StepSkipped() override { ++skipped; }
  int skipped = 0;
};

class WorkerRunTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = JoinPath(testing::TempDir(), "zerofleet_worker_run_" + std::to_string(getpid()));
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    std::string text;
    for (int i = 0; i < 4000; ++i) text += "abcdefgh "[(i * i + i / 7) % 9];
    ASSERT_TRUE(WriteFileAtomically(JoinPath(directory_, "text.txt"), text).ok());
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  v1::Config Config(int workers, int stage) const {
    v1::Config config;
    *config.mutable_model() = model::TestModelConfig(2, 16, 2, 8, 256);
    config.mutable_data()->add_train(JoinPath(directory_, "text.txt"));
    config.mutable_data()->add_validation(JoinPath(directory_, "text.txt"));
    config.mutable_data()->set_format("text");
    config.mutable_data()->set_tokenizer("bytes");
    config.mutable_parallel()->set_workers(workers);
    config.mutable_parallel()->set_zero_stage(stage);
    config.mutable_parallel()->set_tensor(1);
    config.set_precision("fp32");
    config.mutable_activation()->set_checkpointing("none");
    config.mutable_reduce()->set_every("micro_batch");
    config.mutable_batch()->set_global_sequences(12);
    config.mutable_batch()->set_micro_sequences(12 / workers);
    config.mutable_optimizer()->set_name("adamw");
    config.mutable_optimizer()->set_learning_rate(1e-3);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_epsilon(1e-8);
    config.mutable_schedule()->set_decay("constant");
    config.set_steps(8);
    config.mutable_evaluate()->set_every_steps(4);
    config.mutable_evaluate()->set_batches(2);
    config.mutable_checkpoint()->set_dir(JoinPath(directory_, "checkpoints"));
    config.mutable_checkpoint()->set_keep(10);
    config.set_device("cpu");
    config.set_collectives("auto");
    config.mutable_restart()->set_form_timeout_seconds(60);
    config.mutable_restart()->set_load_timeout_seconds(60);
    config.mutable_restart()->set_heartbeat_timeout_seconds(60);
    config.set_seed(3);
    return config;
  }

  // What Run returns: it runs every worker of `config` in a thread; rank 0's process "receives a signal" once
  // `stop_after` steps are known.
  struct Outcome {
    std::vector<absl::StatusOr<WorkerRunResult>> results;
    std::vector<v1::Event> events;
    std::optional<absl::Status> ended;
    int skipped = 0;                  // skipped steps, from rank 0's metrics
    std::vector<std::string> places;  // the line that each worker got with its place
    std::vector<absl::Status> lost;   // the status that each worker's `lost` got
    std::vector<v1::Event> seen;      // what the last worker saw of the run
    std::vector<double> Losses() const {
      std::vector<double> losses;
      for (const v1::Event& event : events) {
        if (event.has_step()) losses.push_back(event.step().loss());
      }
      return losses;
    }
    std::map<int64_t, double> Evaluations() const { return EvaluationsOf(events); }
  };
  // The last evaluation reported, by step.
  static std::map<int64_t, double> EvaluationsOf(const std::vector<v1::Event>& events) {
    std::map<int64_t, double> losses;
    for (const v1::Event& event : events) {
      if (event.has_evaluate()) losses[event.evaluate().step()] = event.evaluate().loss();
    }
    return losses;
  }
  Outcome Run(const v1::Config& config, std::vector<coordinator::CheckpointCandidate> candidates = {},
              int64_t stop_after = -1) {
    coordinator::FleetParameters parameters;
    parameters.config = config;
    parameters.version = "test";
    parameters.candidates = std::move(candidates);
    parameters.may_fall_back = true;
    MemoryFleet fleet(std::move(parameters));
    return RunIn(fleet, config, stop_after);
  }
  Outcome RunIn(MemoryFleet& fleet, const v1::Config& config, int64_t stop_after = -1) {
    int workers = config.parallel().workers();
    std::vector<absl::StatusOr<WorkerRunResult>> results(workers, absl::UnknownError("did not run"));
    std::vector<SkipCounter> metrics(workers);
    std::vector<std::string> places(workers);
    std::vector<absl::Status> lost(workers);
    std::vector<v1::Event> seen;
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([&, i] {
        WorkerStatus status;
        WorkerRunOptions options;
        options.hello.set_build_id("b");
        options.hello.set_version("test");
        options.device = {.kind = config.device(), .threads = 1, .local_rank = i};
        options.save_pause_seconds = 0.01;
        if (config.device() == "cpu" && !measure_peak_) {
          options.create_device = [this, i](const device::DeviceOptions&) {
            return std::make_unique<KnownCpu>(i == 0 ? int64_t{1} << 40 : most_host_bytes_);
          };
        }
        options.stop_signal = [&] {
          return i == 0 && stop_after >= 0 && status.Heartbeat().step() >= stop_after ? 2 : 0;
        };
        options.placed = [&](int, uint64_t, const std::string& line) { places[i] = line; };
        options.lost = [&](const absl::Status& reason) { lost[i] = reason; };
        options.event = [&](const v1::Event& event) {
          if (i == workers - 1) seen.push_back(event);
        };
        std::unique_ptr<FleetSession> session = fleet.Connect();
        results[i] = RunWorker(options, *session, status, metrics[i], Clock::Real());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return {std::move(results), fleet.events(),  fleet.ended(),  metrics[0].skipped,
            std::move(places),  std::move(lost), std::move(seen)};
  }

  std::string directory_;
  bool measure_peak_ = false;
  int64_t most_host_bytes_ = int64_t{1} << 40;  // limit of one reservation on the host, for every rank but the first
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_RUN_TESTING_H_
