// The coordinator under a seeded simulation: workers that crash, fall silent or fail to save, messages that come late,
// twice, out of order or not at all (a stream that loses one breaks), storage that fails, operators that stop the run.
//
// Whatever happens: a step is committed once, with every rank's shard; generations only grow; ranks are unique, those
// of a host consecutive, and own every element once; nothing is loaded before all have entered the view; the run ends,
// and nothing follows its end. A failure prints its seed; ZF_SIMULATION_SEED=n repeats that one with its trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinator.h"

namespace zerofleet {
namespace {

constexpr int kSteps = 6, kSaveEvery = 2;
constexpr int kElements = 12 * kShardAlignment;  // every world size used divides it into full shards
constexpr int kMostRanksPerHost = 3;
constexpr double kHeartbeatTimeout = 2, kFormTimeout = 20;
constexpr double kLongestRun = 300;  // seconds of simulated time

struct Worker {
  MemberId id = 0;
  uint64_t generation = 0;
  v1::Assignment view;
  int rank = -1;
  int64_t step = 0;
  bool alive = true, silent = false, connected = true, training = false, saving = false, finished = false;
};

class Simulation {
 public:
  explicit Simulation(uint32_t seed) : random_(seed), coordinator_(Parameters(), 0) {
    chance_ = Chance(0.2) ? 0 : 0.03;  // some runs meet no fault at all
    workers_.resize(world_size() + (Chance(0.2) ? 1 : 0));
    for (size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].id = i + 1;
      At(Delay() * 4, [this, i] { Join(workers_[i]); });
    }
    if (Chance(0.15)) At(Uniform(0, 15), [this] { Feed(StopAsked{"simulated"}); });
    At(0.1, [this] { Tick_(); });
  }

  void Run() {
    while (!queue_.empty() && !testing::Test::HasFailure()) {
      auto next = queue_.top();
      queue_.pop();
      now_ = next.at;
      ASSERT_LT(now_, kLongestRun) << "the run does not end";
      next.what();
    }
    EXPECT_TRUE(ended_);
  }

  const absl::Status& end() const { return end_; }

 private:
  struct Later {
    double at;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Later& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  FleetParameters Parameters() {
    FleetParameters parameters;
    v1::Config& config = parameters.config;
    config.mutable_parallel()->set_workers(1 + random_() % 4);
    config.mutable_parallel()->set_tensor(1);
    config.set_steps(kSteps);
    config.mutable_restart()->set_heartbeat_timeout_seconds(kHeartbeatTimeout);
    config.mutable_restart()->set_form_timeout_seconds(kFormTimeout);
    parameters.units = {{"w", 0, kElements}};
    parameters.previous_generation = random_() % 5;
    generation_ = parameters.previous_generation;
    return parameters;
  }

  int world_size() const { return coordinator_.fleet().world_size(); }
  double Uniform(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }
  bool Chance(double p) { return Uniform(0, 1) < p; }
  double Delay() { return Chance(0.05) ? Uniform(0, 1) : Uniform(0, 0.05); }
  void At(double seconds, std::function<void()> what) { queue_.push({now_ + seconds, ++order_, std::move(what)}); }

  void Trace(const std::string& line) {
    if (std::getenv("ZF_SIMULATION_SEED") != nullptr) std::cout << now_ << " " << line << "\n";
  }

  // --- The network. Delays reorder; a lost message breaks its stream.

  void Break(Worker& worker) {
    if (!worker.connected) return;
    worker.connected = false;
    At(Delay(), [this, id = worker.id] { Feed(SessionClosed{id, "stream broken"}); });
  }

  void Send(Worker& worker, v1::WorkerMessage message) {
    if (!worker.alive || !worker.connected || worker.silent) return;
    if (Chance(chance_ / 4)) return Break(worker);
    message.set_generation(worker.generation);
    for (int copies = Chance(0.1) ? 2 : 1; copies > 0; --copies) {
      At(Delay(), [this, id = worker.id, message] { Feed(MessageReceived{id, message}); });
    }
  }

  void Deliver(const SendTo& send) {
    Worker& worker = workers_.at(send.member - 1);
    if (!worker.connected) return;
    if (Chance(chance_ / 4)) return Break(worker);
    for (int copies = Chance(0.1) ? 2 : 1; copies > 0; --copies) {
      At(Delay(), [this, &worker, message = send.message] { Receive(worker, message); });
    }
  }

  // --- The workers.

  void Join(Worker& worker) {
    v1::WorkerMessage message;
    message.mutable_hello()->set_host(absl::StrCat("host", random_() % kMostRanksPerHost));
    message.mutable_hello()->set_pid(static_cast<int64_t>(worker.id));
    Send(worker, message);
    At(0.1, [this, &worker] { Live(worker); });
  }

  void Receive(Worker& worker, const v1::CoordinatorMessage& message) {
    if (!worker.alive || worker.silent) return;
    worker.generation = std::max(worker.generation, message.generation());
    v1::WorkerMessage reply;
    if (message.has_welcome()) {
      reply.mutable_ready()->set_config_digest("same");
      Send(worker, reply);
    } else if (message.has_assignment()) {
      worker.rank = message.assignment().rank();
      worker.view = message.assignment();
      reply.mutable_entered()->set_layout_digest("same");
      if (entered_.insert(worker.id).second || Chance(0.5)) Send(worker, reply);
    } else if (message.has_load()) {
      reply.mutable_load_result()->set_ok(true);
      Send(worker, reply);
    } else if (message.has_start()) {
      worker.training = true;
    } else if (message.has_checkpoint()) {
      if (message.checkpoint().step() == worker.step) worker.saving = false;
    } else if (message.has_stop()) {
      if (stop_at_ < 0) AgreeOnStop();
    } else if (message.has_refused() || message.has_complete()) {
      worker.alive = false;
      Break(worker);
    }
  }

  // A heartbeat, and a step once training, until the worker is gone.
  void Live(Worker& worker) {
    if (!worker.alive || ended_) return;
    if (Chance(chance_ / 4)) worker.silent = true;
    if (Chance(chance_ / 4)) {
      worker.alive = false;
      return Break(worker);
    }
    v1::WorkerMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_step(worker.step);
    Send(worker, heartbeat);
    if (worker.training && !worker.saving && !worker.finished && worker.rank >= 0) Train(worker);
    At(0.3, [this, &worker] { Live(worker); });
  }

  // Real ranks agree on the step to stop after by a collective: here the next save that nobody has passed.
  void AgreeOnStop() {
    int64_t furthest = 0;
    for (const Worker& worker : workers_) furthest = std::max(furthest, worker.step);
    stop_at_ = (furthest / kSaveEvery + 1) * kSaveEvery;
  }

  void Train(Worker& worker) {
    if (worker.step == kSteps || worker.step == stop_at_) {
      worker.finished = true;
      v1::WorkerMessage finished;
      finished.mutable_finished()->set_step(worker.step);
      return Send(worker, finished);
    }
    ++worker.step;
    v1::WorkerMessage event;
    event.mutable_event()->mutable_step()->set_step(worker.step);
    if (worker.rank == 0) Send(worker, event);
    if (worker.step % kSaveEvery == 0) Save(worker);
  }

  void Save(Worker& worker) {
    worker.saving = true;
    v1::WorkerMessage message;
    v1::ShardWritten& shard = *message.mutable_shard_written();
    shard.set_step(worker.step);
    shard.set_ok(!Chance(chance_ / 2));
    shard.mutable_manifest()->set_step(worker.step);
    *shard.mutable_manifest()->mutable_config() = coordinator_.fleet().parameters.config;
    shard.mutable_manifest()->set_world_size(worker.view.world_size());
    shard.mutable_manifest()->set_team(worker.view.team());
    shard.mutable_file()->set_rank(worker.rank);
    shard.mutable_manifest()->add_tensors()->set_flat_end(kElements);
    *shard.mutable_file()->mutable_ranges() = worker.view.owned();
    Send(worker, message);
  }

  // --- The coordinator, and what must always hold.

  void Tick_() {
    if (ended_) return;
    Feed(Tick());
    At(Chance(chance_) ? Uniform(0.1, 5) : 0.1, [this] { Tick_(); });
  }

  void Feed(const CoordinatorEvent& event) {
    if (auto* received = std::get_if<MessageReceived>(&event); received && received->message.has_shard_written()) {
      const v1::ShardWritten& shard = received->message.shard_written();
      if (shard.ok()) shards_[shard.step()].insert(received->member);
    }
    std::vector<Output> outputs = coordinator_.Step(event, now_);
    if (ended_) {
      EXPECT_TRUE(outputs.empty());
    }
    for (const Output& output : outputs) {
      Trace(Describe(output));
      EXPECT_FALSE(output.reason.empty());
      Check(output);
    }
  }

  void Check(const Output& output) {
    EXPECT_FALSE(ended_) << "after the end: " << Describe(output);
    if (auto* send = std::get_if<SendTo>(&output.action)) {
      if (send->message.has_assignment()) CheckAssignment(*send);
      if (send->message.has_load()) {
        EXPECT_EQ(static_cast<int>(entered_.size()), world_size());
      }
      Deliver(*send);
    } else if (auto* write = std::get_if<WriteManifest>(&output.action)) {
      CheckCommit(write->manifest);
    } else if (auto* persist = std::get_if<PersistState>(&output.action)) {
      EXPECT_GE(persist->state.generation, generation_);
      EXPECT_GT(persist->state.generation, coordinator_.fleet().parameters.previous_generation);
      generation_ = persist->state.generation;
    } else if (auto* publish = std::get_if<PublishEvent>(&output.action)) {
      if (publish->event.has_step()) {
        EXPECT_GT(publish->event.step().step(), last_step_);
        last_step_ = publish->event.step().step();
      }
    } else if (auto* end = std::get_if<EndRun>(&output.action)) {
      ended_ = true;
      end_ = end->status;
    }
  }

  void CheckAssignment(const SendTo& send) {
    EXPECT_EQ(send.message.generation(), generation_) << "not durable before it was told";
    const v1::Assignment& view = send.message.assignment();
    EXPECT_TRUE(ranks_.emplace(send.message.generation(), view.rank()).second) << "rank " << view.rank() << " twice";
    for (const v1::FlatRange& range : view.owned()) owned_ += range.flat_end() - range.flat_begin();
    if (static_cast<int>(ranks_.size()) < world_size()) return;
    EXPECT_EQ(owned_, kElements);
    std::set<std::string> hosts = {view.members(0).host()};
    for (int rank = 1; rank < view.members_size(); ++rank) {
      const v1::Member &before = view.members(rank - 1), &here = view.members(rank);
      const bool another = here.host() != before.host();
      EXPECT_EQ(here.node(), before.node() + another);
      EXPECT_TRUE(!another || hosts.insert(here.host()).second) << here.host() << " has ranks apart";
      EXPECT_TRUE(here.team() != before.team() || !another) << "a team spans two nodes";
    }
  }

  void CheckCommit(const v1::CheckpointManifest& manifest) {
    int64_t step = manifest.step();
    EXPECT_TRUE(committed_.insert(step).second) << "step " << step << " twice";
    EXPECT_EQ(manifest.files_size(), world_size());
    EXPECT_EQ(static_cast<int>(shards_[step].size()), world_size()) << "step " << step;
    absl::Status status = Chance(chance_) ? absl::PermissionDeniedError("read-only") : absl::OkStatus();
    At(Delay(), [this, step, status] { Feed(ManifestWritten{step, status, {"path", {}}}); });
  }

  std::mt19937 random_;
  double now_ = 0, chance_ = 0;
  uint64_t order_ = 0, generation_ = 0;
  int64_t last_step_ = 0, stop_at_ = -1;  // -1: no stop was asked for
  Coordinator coordinator_;
  std::priority_queue<Later> queue_;
  std::vector<Worker> workers_;
  std::map<int64_t, std::set<MemberId>> shards_;  // delivered, by step
  std::set<int64_t> committed_;
  std::set<std::pair<uint64_t, int>> ranks_;
  std::set<MemberId> entered_;  // have been told their place
  int64_t owned_ = 0;           // elements, over all ranks told so far
  bool ended_ = false;
  absl::Status end_;
};

TEST(SimulationTest, InvariantsHoldWhateverHappens) {
  const char* one = std::getenv("ZF_SIMULATION_SEED");
  uint32_t first = one != nullptr ? std::atoi(one) : 0;
  uint32_t last = one != nullptr ? first : 1999;
  std::map<absl::StatusCode, int> ends;
  for (uint32_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(absl::StrCat("ZF_SIMULATION_SEED=", seed));
    Simulation simulation(seed);
    simulation.Run();
    ++ends[simulation.end().code()];
    if (HasFailure()) return;
  }
  for (auto [code, count] : ends) std::cout << absl::StatusCodeToString(code) << ": " << count << " runs\n";
  if (one != nullptr) return;
  // The simulation reaches what it is for.
  for (absl::StatusCode code : {absl::StatusCode::kOk, absl::StatusCode::kUnavailable, absl::StatusCode::kDataLoss,
                                absl::StatusCode::kCancelled, absl::StatusCode::kDeadlineExceeded}) {
    EXPECT_GT(ends[code], 0) << absl::StatusCodeToString(code);
  }
}

}  // namespace
}  // namespace zerofleet
