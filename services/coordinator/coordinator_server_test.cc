// A whole coordinator over gRPC on the loopback: two hand-written streams go through a run, and watchers read it.
#include "services/coordinator/coordinator_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/file.h"
#include "services/rpc/listener.h"
#include "services/rpc/user_timeouts_testing.h"
#include "services/storage/coordinator_state.h"
#include "services/storage/directory_epoch.h"
#include "worker/checkpoint/catalog.h"
#include "worker/model/model_testing.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {
namespace {

using testing::HasSubstr;

// One worker's stream, driven step by step.
class Stream {
 public:
  Stream(v1::Coordinator::Stub& stub, int pid) : stream_(stub.Session(&context_)) {
    v1::WorkerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_build_id("build");
    hello.set_version("1");
    hello.set_host("host");
    hello.set_pid(pid);
    hello.set_device("cpu");
    Send(message);
  }

  void Send(v1::WorkerMessage message) {
    message.set_generation(generation_);
    stream_->Write(message);
  }

  // The next message; its body must be `body`.
  v1::CoordinatorMessage Expect(v1::CoordinatorMessage::BodyCase body) {
    v1::CoordinatorMessage message;
    EXPECT_TRUE(stream_->Read(&message));
    EXPECT_EQ(message.body_case(), body) << message.ShortDebugString();
    generation_ = message.generation();
    return message;
  }

  grpc::Status Finish() {
    stream_->WritesDone();
    v1::CoordinatorMessage message;
    while (stream_->Read(&message)) ADD_FAILURE() << "unexpected: " << message.ShortDebugString();
    return stream_->Finish();
  }

  void Cancel() { context_.TryCancel(); }

  // The status at the end of the stream, ignoring messages not read yet.
  grpc::Status End() {
    v1::CoordinatorMessage message;
    while (stream_->Read(&message)) continue;
    return stream_->Finish();
  }

  void Ready(const std::string& transport_address = "") {
    v1::WorkerMessage message;
    message.mutable_ready()->set_transport_address(transport_address);
    message.mutable_ready()->set_config_digest("configuration");
    message.mutable_ready()->set_parameters(10);
    Send(message);
  }

  // Receives the Assignment and enters the view; returns the rank.
  int Enter() {
    const int rank = Expect(v1::CoordinatorMessage::kAssignment).assignment().rank();
    v1::WorkerMessage message;
    message.mutable_entered()->set_layout_digest("layout");
    Send(message);
    return rank;
  }

  void Loaded() {
    std::string path = Expect(v1::CoordinatorMessage::kLoad).load().path();
    v1::WorkerMessage message;
    message.mutable_load_result()->set_ok(true);
    message.mutable_load_result()->set_path(path);
    Send(message);
  }

  void Finished(int64_t step) {
    v1::WorkerMessage message;
    message.mutable_finished()->set_step(step);
    message.mutable_finished()->mutable_report()->set_rss_peak_bytes(1000);
    Send(message);
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
  uint64_t generation_ = 0;
};

class CoordinatorServerTest : public testing::Test {
 protected:
  CoordinatorServerTest() {
    EXPECT_TRUE(RemoveTree(dir_).ok());
    options_.listen = "127.0.0.1:0";
    options_.state_dir = JoinPath(dir_, "state");
    options_.version = "1";
    options_.revision = "5d40281";
    options_.registry = &registry_;
    v1::Config& config = options_.config;
    config.mutable_parallel()->set_workers(2);
    config.mutable_parallel()->set_tensor(1);
    config.set_steps(1);
    config.mutable_optimizer()->set_name("adamw");
    config.mutable_batch()->set_global_sequences(2);
    *config.mutable_model() = model::TestModelConfig(1, 8, 1, 8, 256);
    config.mutable_batch()->set_micro_sequences(1);
    config.mutable_checkpoint()->set_dir(JoinPath(dir_, "checkpoints"));
    config.mutable_checkpoint()->set_keep(3);
    config.mutable_restart()->set_heartbeat_timeout_seconds(60);
    config.mutable_restart()->set_form_timeout_seconds(60);
    config.mutable_restart()->set_load_timeout_seconds(60);
  }
  ~CoordinatorServerTest() override {
    server_.reset();
    EXPECT_TRUE(RemoveTree(dir_).ok());
  }

  void Start() {
    absl::StatusOr<std::unique_ptr<CoordinatorServer>> server = CoordinatorServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    stub_ = v1::Coordinator::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
  }

  // Takes both workers up to Start.
  void Form(const std::string& transport_address = "") {
    for (int worker = 0; worker < 2; ++worker) {
      streams_.push_back(std::make_unique<Stream>(*stub_, 100 + worker));
      streams_[worker]->Expect(v1::CoordinatorMessage::kWelcome);
      streams_[worker]->Ready(transport_address);
    }
    for (int worker = 0; worker < 2; ++worker) EXPECT_EQ(streams_[worker]->Enter(), worker);
    for (auto& stream : streams_) stream->Loaded();
    for (auto& stream : streams_) stream->Expect(v1::CoordinatorMessage::kStart);
  }

  // Every event of the run, read until the watch ends.
  std::vector<v1::Event> WatchAll(bool hold = false) {
    grpc::ClientContext context;
    v1::WatchRequest request;
    request.set_hold(hold);
    auto reader = stub_->Watch(&context, request);
    std::vector<v1::Event> events;
    v1::Event event;
    while (reader->Read(&event)) events.push_back(event);
    EXPECT_TRUE(reader->Finish().ok());
    return events;
  }

  void StopByCall(const std::string& reason) {
    grpc::ClientContext context;
    v1::StopRequest request;
    request.set_reason(reason);
    v1::StopResponse response;
    EXPECT_TRUE(stub_->Stop(&context, request, &response).ok());
  }

  v1::GetStatusResponse Status(bool partitions = false) {
    grpc::ClientContext context;
    v1::GetStatusRequest request;
    request.set_partitions(partitions);
    v1::GetStatusResponse response;
    EXPECT_TRUE(stub_->GetStatus(&context, request, &response).ok());
    return response;
  }

  const std::string dir_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_coordinator_server_", getpid()));
  prometheus::Registry registry_;
  CoordinatorOptions options_;
  std::unique_ptr<CoordinatorServer> server_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

TEST_F(CoordinatorServerTest, AWholeRunIsServedAndWatched) {
  Start();
  std::vector<v1::Event> early;
  std::thread watcher([&] { early = WatchAll(); });
  Form();
  v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.phase(), "training");
  EXPECT_EQ(status.generation(), 1u);
  EXPECT_EQ(status.members_size(), 2);
  EXPECT_EQ(status.team(), 2);
  EXPECT_FALSE(status.has_partition());
  status = Status(/*partitions=*/true);
  ASSERT_EQ(status.partition().ranks_size(), 2);
  EXPECT_EQ(status.partition().units_size(), 3);  // embedding, a block, head
  EXPECT_EQ(status.partition().ranks(1).states(0).name(), "parameters");
  EXPECT_GT(status.partition().ranks(1).states(0).bytes(), 0);
  v1::WorkerMessage step;
  step.mutable_event()->mutable_step()->set_step(1);
  step.mutable_event()->mutable_step()->set_loss(2.5);
  streams_[0]->Send(step);
  for (auto& stream : streams_) stream->Finished(1);
  std::vector<v1::Event> late;
  std::thread late_watcher([&] { late = WatchAll(); });
  for (auto& stream : streams_) {
    stream->Expect(v1::CoordinatorMessage::kComplete);
    EXPECT_TRUE(stream->Finish().ok());
  }
  late_watcher.join();
  watcher.join();
  EXPECT_TRUE(server_->Wait().ok());
  ASSERT_EQ(early.size(), 3u);
  EXPECT_TRUE(early[0].has_start());
  EXPECT_EQ(early[1].step().loss(), 2.5);
  EXPECT_EQ(early[1].step().generation(), 1u);
  EXPECT_EQ(early[2].end().ranks_size(), 2);
  EXPECT_EQ(late.size(), early.size());
  EXPECT_EQ(ReadCoordinatorState(options_.state_dir)->generation, 1u);
  EXPECT_EQ(early[0].start().revision(), "5d40281");
  EXPECT_EQ(early[0].start().run_id(), ReadCoordinatorState(options_.state_dir)->run_id);
}

TEST_F(CoordinatorServerTest, ARunKeepsItsIdOverRestartsOfItsCoordinator) {
  const std::string id = "0a4e456789abcdef0123456789abcdef";
  const auto begun_with = [&](const std::string& resume) {
    EXPECT_TRUE(WriteCoordinatorState(options_.state_dir, {7, -1, {}, {}, id}).ok());
    prometheus::Registry registry;
    options_.registry = &registry;
    options_.resume = resume;
    Start();
    Form();
    StopByCall("enough");
    for (auto& stream : streams_) stream->Expect(v1::CoordinatorMessage::kStop);
    streams_.clear();
    server_.reset();
    return ReadCoordinatorState(options_.state_dir)->run_id;
  };
  EXPECT_EQ(begun_with("auto"), id);
  const std::string anew = begun_with("none");
  EXPECT_NE(anew, id);
  EXPECT_EQ(anew.size(), id.size());
}

TEST_F(CoordinatorServerTest, GenerationsGrowAcrossRestarts) {
  ASSERT_TRUE(WriteCoordinatorState(options_.state_dir, {41, -1, {}}).ok());
  Start();
  Form();
  EXPECT_EQ(Status().generation(), 42u);
  StopByCall("enough");
  for (auto& stream : streams_) stream->Expect(v1::CoordinatorMessage::kStop);
}

TEST_F(CoordinatorServerTest, ALostStreamEndsTheRunForTheOthers) {
  Start();
  Form();
  streams_[1]->Cancel();
  v1::CoordinatorMessage refused = streams_[0]->Expect(v1::CoordinatorMessage::kRefused);
  EXPECT_THAT(refused.refused().message(), HasSubstr("lost rank 1 (host host, pid 101)"));
  EXPECT_TRUE(streams_[0]->Finish().ok());
  absl::Status status = server_->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

// The queue for a worker that does not read is bounded in bytes, too: this one requests much and reads nothing.
TEST_F(CoordinatorServerTest, AWorkerThatDoesNotReadIsCutOff) {
  Start();
  Form(std::string(60'000, 'a'));
  v1::WorkerMessage question;
  for (int i = 0; i < 64; ++i) question.mutable_peers_wanted()->add_ranks(1);
  for (int i = 0; i < 6; ++i) streams_[0]->Send(question);  // 23 MB
  const v1::CoordinatorMessage refused = streams_[1]->Expect(v1::CoordinatorMessage::kRefused);
  EXPECT_THAT(refused.refused().message(), HasSubstr("rank 0 (host host, pid 100) at step 0: it does not read"));
  EXPECT_FALSE(streams_[0]->End().ok());
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kUnavailable);
}

// One of two workers falls silent; if both did, the coordinator would take itself to be cut off.
TEST_F(CoordinatorServerTest, ASilentWorkerIsLostByTheClock) {
  FakeClock clock;
  options_.clock = &clock;
  Start();
  Form();
  const auto await_age = [&](int rank, double seconds) {
    const std::string seen =
        absl::StrCat("zerofleet_coordinator_heartbeat_age_seconds{rank=\"", rank, "\"} ", seconds, "\n");
    while (prometheus::TextSerializer().Serialize(registry_.Collect()).find(seen) == std::string::npos) {
      std::this_thread::yield();
    }
  };
  // Advances the clock and waits until the coordinator has noticed.
  const auto advance = [&](double seconds) {
    clock.Advance(seconds);
    await_age(1, clock.MonotonicSeconds());
  };
  for (const double seconds : {25, 25, 9}) advance(seconds);
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_step(0);
  streams_[0]->Send(beat);
  await_age(0, 0);
  EXPECT_EQ(Status().phase(), "training");  // silent for 59 s of the allowed 60
  clock.Advance(2);
  const absl::Status status = server_->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing heard for 61.0 s"));
  server_.reset();  // before its clock
}

// Otherwise a rank that stands still is lost with its connection, long before its heartbeat timeout.
TEST_F(CoordinatorServerTest, AConnectionIsKeptForTheHeartbeatTimeout) {
  for (const int seconds : {60, 2}) {
    options_.config.mutable_restart()->set_heartbeat_timeout_seconds(seconds);
    Start();
    Form();
    const auto ours = static_cast<unsigned>(std::max(1000 * seconds, kKeepaliveTimeoutMs));
    EXPECT_THAT(UserTimeouts(server_->port()), testing::UnorderedElementsAre(0, ours));  // the test's own end sets none
    streams_.clear();
    server_.reset();
  }
}

TEST_F(CoordinatorServerTest, AFleetThatDoesNotFormEndsInTime) {
  FakeClock clock;
  options_.clock = &clock;
  Start();
  Stream stream(*stub_, 100);
  stream.Expect(v1::CoordinatorMessage::kWelcome);
  // In small steps, since time that the coordinator sleeps through does not count.
  std::atomic<bool> ended = false;
  std::thread time([&] {
    while (!ended) {
      clock.Advance(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_THAT(stream.Expect(v1::CoordinatorMessage::kRefused).refused().message(), HasSubstr("1 of 2 workers joined"));
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  ended = true;
  time.join();
  server_.reset();  // before its clock
}

TEST_F(CoordinatorServerTest, StopBeforeTrainingIsCancelled) {
  Start();
  server_->Stop("SIGINT");
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(CoordinatorServerTest, TheEndIsKeptForAWatcherThatIsYetToCome) {
  options_.watched = true;
  Start();
  Form();
  for (auto& stream : streams_) stream->Finished(1);
  for (auto& stream : streams_) {
    stream->Expect(v1::CoordinatorMessage::kComplete);
    EXPECT_TRUE(stream->Finish().ok());
  }
  absl::Notification ended;
  std::thread waiting([&] {
    EXPECT_TRUE(server_->Wait().ok());
    ended.Notify();
  });
  WatchAll();  // another watcher, which comes and goes
  EXPECT_FALSE(ended.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  const std::vector<v1::Event> events = WatchAll(/*hold=*/true);
  waiting.join();
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(events.back().has_end());
}

TEST_F(CoordinatorServerTest, AStateThatCannotBeSavedEndsTheRun) {
  Start();  // the state is written when the fleet forms
  ASSERT_TRUE(CreateDirectory(CoordinatorStatePath(options_.state_dir) + ".tmp").ok());  // blocks the .tmp file
  Stream first(*stub_, 100), second(*stub_, 101);
  first.Expect(v1::CoordinatorMessage::kWelcome);
  second.Expect(v1::CoordinatorMessage::kWelcome);
  first.Ready();
  second.Ready();
  EXPECT_THAT(first.Expect(v1::CoordinatorMessage::kRefused).refused().message(), HasSubstr(options_.state_dir));
  EXPECT_FALSE(server_->Wait().ok());
}

TEST_F(CoordinatorServerTest, AStateDirectoryThatCannotBeIsAnErrorThatNamesIt) {
  ASSERT_TRUE(CreateDirectories(dir_).ok());
  ASSERT_TRUE(WriteFileAtomically(options_.state_dir, "a file, not a directory").ok());
  const absl::Status status = CoordinatorServer::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--state-dir: " + options_.state_dir + " cannot be written: "));
}

TEST_F(CoordinatorServerTest, ACheckpointDirectoryServesOneCoordinator) {
  Start();
  prometheus::Registry other;
  options_.registry = &other;
  options_.state_dir = JoinPath(dir_, "another-state");
  options_.directory_patience = absl::ZeroDuration();
  options_.listen = absl::StrCat("127.0.0.1:", server_->port());  // in use, but that is not noticed earlier
  absl::StatusOr<std::unique_ptr<CoordinatorServer>> second = CoordinatorServer::Start(options_);
  EXPECT_EQ(second.status().message(),
            "checkpoint.dir: another run holds " + options_.config.checkpoint().dir() + "; use another directory");
}

TEST_F(CoordinatorServerTest, AStateDirectoryServesOneCoordinator) {
  Start();
  prometheus::Registry other;
  CoordinatorOptions options = options_;
  options.registry = &other;
  options.config.mutable_checkpoint()->set_dir(JoinPath(dir_, "others"));
  options.directory_patience = absl::ZeroDuration();
  options.listen = absl::StrCat("127.0.0.1:", server_->port());
  const absl::Status second = CoordinatorServer::Start(options).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.message(),
            "--state-dir: another coordinator holds " + options.state_dir + "; give each run a directory of its own");
  EXPECT_FALSE(FileExists(JoinPath(dir_, "others")));  // nothing was created
  server_.reset();
  options.listen = "127.0.0.1:0";
  EXPECT_TRUE(CoordinatorServer::Start(options).ok());
}

TEST_F(CoordinatorServerTest, OneDirectoryMayHoldStateAndCheckpoints) {
  options_.state_dir = options_.config.checkpoint().dir();
  Start();
}

TEST_F(CoordinatorServerTest, AReplacedStateDirectoryEndsTheRun) {
  options_.directory_check_interval = absl::Milliseconds(5);
  Start();
  Form();
  ASSERT_TRUE(WriteFileAtomically(JoinPath(options_.state_dir, "coordinator.lock"), "").ok());
  EXPECT_THAT(streams_[0]->Expect(v1::CoordinatorMessage::kRefused).refused().message(),
              HasSubstr("--state-dir: " + options_.state_dir + " was replaced while it was in use"));
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorServerTest, AReplacedCheckpointDirectoryEndsTheRun) {
  options_.directory_check_interval = absl::Milliseconds(5);
  Start();
  Form();
  ASSERT_TRUE(WriteFileAtomically(JoinPath(options_.config.checkpoint().dir(), ".lock"), "").ok());
  EXPECT_THAT(streams_[0]->Expect(v1::CoordinatorMessage::kRefused).refused().message(),
              HasSubstr("was replaced while it was in use"));
  EXPECT_TRUE(streams_[1]->Expect(v1::CoordinatorMessage::kRefused).has_refused());
  for (auto& stream : streams_) EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorServerTest, ACoordinatorThatIsFencedOffEndsTheRun) {
  options_.directory_check_interval = absl::Milliseconds(5);
  Start();
  Form();
  ASSERT_TRUE(DirectoryEpoch::Claim(options_.config.checkpoint().dir(), 7, absl::UnixEpoch()).ok());
  EXPECT_THAT(streams_[0]->Expect(v1::CoordinatorMessage::kRefused).refused().message(),
              HasSubstr("checkpoint.dir: another coordinator (host "));
  EXPECT_TRUE(streams_[1]->Expect(v1::CoordinatorMessage::kRefused).has_refused());
  for (auto& stream : streams_) EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kNotFound);
}

// One state directory, and a lock that keeps nobody out: the newer coordinator would otherwise use the same generation.
TEST_F(CoordinatorServerTest, ACoordinatorThatIsFencedOffWritesNoState) {
  options_.directory_check_interval = absl::Hours(1);
  ASSERT_TRUE(WriteCoordinatorState(options_.state_dir, {41, -1, {}}).ok());
  Start();
  ASSERT_TRUE(DirectoryEpoch::Claim(options_.config.checkpoint().dir(), 41, absl::UnixEpoch()).ok());
  for (int worker = 0; worker < 2; ++worker) {
    streams_.push_back(std::make_unique<Stream>(*stub_, 100 + worker));
    streams_[worker]->Expect(v1::CoordinatorMessage::kWelcome);
    streams_[worker]->Ready("");
  }
  for (auto& stream : streams_) {
    EXPECT_THAT(stream->Expect(v1::CoordinatorMessage::kRefused).refused().message(),
                HasSubstr("checkpoint.dir: another coordinator (host "));
  }
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadCoordinatorState(options_.state_dir)->generation, 41u);
}

TEST_F(CoordinatorServerTest, APortInUseIsAnErrorThatNamesIt) {
  Start();
  options_.listen = absl::StrCat("127.0.0.1:", server_->port());
  prometheus::Registry other;
  options_.registry = &other;
  options_.state_dir = JoinPath(dir_, "others-state");
  options_.config.mutable_checkpoint()->set_dir(JoinPath(dir_, "others"));
  absl::StatusOr<std::unique_ptr<CoordinatorServer>> second = CoordinatorServer::Start(options_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(options_.listen));
}

TEST_F(CoordinatorServerTest, WhatAFleetThatMayRunIsSavingIsKeptUntilARunHasEndedWell) {
  ASSERT_TRUE(WriteCoordinatorState(options_.state_dir, {7, -1, {}}).ok());
  const std::string step = checkpoint::StepDirectory(options_.config.checkpoint().dir(), 30);
  for (const uint64_t generation : {6, 7})
    ASSERT_TRUE(CreateDirectories(checkpoint::PartialDirectory(step, generation)).ok());
  const std::string pruned = checkpoint::StepDirectory(options_.config.checkpoint().dir(), 10);
  ASSERT_TRUE(CreateDirectory(pruned).ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(pruned, "rank-00000.safetensors"), "a shard").ok());
  const timespec long_ago[] = {{1'000'000, 0}, {1'000'000, 0}};
  for (const std::string& path : {JoinPath(pruned, "rank-00000.safetensors"), pruned}) {
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
  }
  Start();
  EXPECT_FALSE(FileExists(pruned));
  EXPECT_FALSE(FileExists(checkpoint::PartialDirectory(step, 6)));
  EXPECT_TRUE(FileExists(checkpoint::PartialDirectory(step, 7)));
  Form();
  for (auto& stream : streams_) stream->Finished(0);
  for (auto& stream : streams_) stream->Expect(v1::CoordinatorMessage::kComplete);
  for (auto& stream : streams_) stream->Finish();
  EXPECT_TRUE(server_->Wait().ok());
  EXPECT_FALSE(FileExists(checkpoint::PartialDirectory(step, 7)));
}

}  // namespace
}  // namespace zerofleet::services
