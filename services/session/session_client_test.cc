// Sessions with a real server on loopback: exchange, refusal, loss, heartbeats.
#include "services/session/session_client.h"

#include <atomic>
#include <optional>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/session/test_coordinator.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;
using SessionStream = TestCoordinator::SessionStream;

v1::WorkerMessage Hello(const std::string& host) {
  v1::WorkerMessage message;
  message.mutable_hello()->set_host(host);
  return message;
}

v1::CoordinatorMessage Welcome(uint64_t generation, double heartbeat_timeout_seconds) {
  v1::CoordinatorMessage message;
  message.set_generation(generation);
  message.mutable_welcome()->mutable_config()->mutable_restart()->set_heartbeat_timeout_seconds(
      heartbeat_timeout_seconds);
  return message;
}

// Reads until the worker's last message, and keeps the messages.
struct Recorder {
  std::vector<v1::WorkerMessage> messages;
  absl::Notification ended;

  void ReadAll(SessionStream& stream) {
    v1::WorkerMessage message;
    while (stream.Read(&message)) messages.push_back(message);
    ended.Notify();
  }
};

std::unique_ptr<SessionClient> Connected(const TestCoordinator& coordinator,
                                         std::optional<double> reconnect_seconds = std::nullopt) {
  auto session = SessionClient::Connect({.coordinator = coordinator.address(),
                                         .connect_timeout_seconds = kPatienceSeconds,
                                         .reconnect_seconds = reconnect_seconds,
                                         .linger_seconds = kPatienceSeconds});
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

// The status that OnLost's handler gets, for a test to wait for.
struct Loss {
  absl::Notification told;
  absl::Status status;

  void Watch(SessionClient& session) {
    session.OnLost([this](const absl::Status& reason) {
      status = reason;
      told.Notify();
    });
  }
  bool Told() { return told.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)); }
};

TEST(SessionClient, ExchangesMessagesAndStampsTheGenerationTheTrainerKnows) {
  Recorder recorder;
  TestCoordinator coordinator([&](SessionStream& stream) {
    v1::WorkerMessage hello;
    stream.Read(&hello);
    recorder.messages.push_back(hello);
    stream.Write(Welcome(7, 2));
    recorder.ReadAll(stream);
    return grpc::Status::OK;
  });
  {
    const auto session = Connected(coordinator);
    ASSERT_TRUE(session->Send(Hello("node-1")).ok());
    const auto welcome = session->Receive(kPatienceSeconds);
    ASSERT_TRUE(welcome.ok()) << welcome.status();
    EXPECT_TRUE(welcome->has_welcome());
    v1::WorkerMessage ready;
    ready.mutable_ready()->set_config_digest("abc");
    ASSERT_TRUE(session->Send(ready).ok());
  }
  recorder.ended.WaitForNotification();
  ASSERT_EQ(recorder.messages.size(), 2u);
  EXPECT_EQ(recorder.messages[0].hello().host(), "node-1");
  EXPECT_EQ(recorder.messages[0].generation(), 0u);
  EXPECT_EQ(recorder.messages[1].ready().config_digest(), "abc");
  EXPECT_EQ(recorder.messages[1].generation(), 7u);
}

TEST(SessionClient, DoesNotSpeakForAGenerationItsTrainerHasNotHeardOf) {
  Recorder recorder;
  absl::Notification written;
  TestCoordinator coordinator([&](SessionStream& stream) {
    stream.Write(Welcome(1, 2));
    stream.Write(Welcome(2, 2));
    written.Notify();
    recorder.ReadAll(stream);
    return grpc::Status::OK;
  });
  {
    const auto session = Connected(coordinator);
    written.WaitForNotification();
    ASSERT_EQ(session->Receive(kPatienceSeconds)->generation(), 1u);
    ASSERT_TRUE(session->Send(Hello("a")).ok());
    ASSERT_EQ(session->Receive(kPatienceSeconds)->generation(), 2u);
    ASSERT_TRUE(session->Send(Hello("b")).ok());
  }
  recorder.ended.WaitForNotification();
  ASSERT_EQ(recorder.messages.size(), 2u);
  EXPECT_EQ(recorder.messages[0].generation(), 1u);
  EXPECT_EQ(recorder.messages[1].generation(), 2u);
}

TEST(SessionClient, ReceiveTimesOutWhileTheSessionStands) {
  TestCoordinator coordinator([](SessionStream& stream) {
    Recorder().ReadAll(stream);
    return grpc::Status::OK;
  });
  const auto session = Connected(coordinator);
  EXPECT_EQ(session->Receive(0).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session->Receive(0.01).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(SessionClient, BeatsAtAQuarterOfTheTimeoutThatTheWelcomeTells) {
  constexpr double kTimeoutSeconds = 0.8;
  std::vector<double> beats;
  absl::Notification enough;
  TestCoordinator coordinator([&](SessionStream& stream) {
    stream.Write(Welcome(3, kTimeoutSeconds));
    v1::WorkerMessage message;
    while (stream.Read(&message)) {
      EXPECT_EQ(message.heartbeat().step(), 11);
      EXPECT_EQ(message.generation(), 3u);
    }
    return grpc::Status::OK;
  });
  const auto session = Connected(coordinator);
  ASSERT_TRUE(session->Receive(kPatienceSeconds).ok());
  session->StartHeartbeats([&] {
    if (beats.size() < 4) {
      beats.push_back(Clock::Real().MonotonicSeconds());
      if (beats.size() == 4) enough.Notify();
    }
    v1::Heartbeat heartbeat;
    heartbeat.set_step(11);
    return heartbeat;
  });
  ASSERT_TRUE(enough.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)));
  // Three intervals of 0.2 s, counted from when each was due; a busy machine may delay the first.
  EXPECT_GT(beats[3] - beats[0], 1.9 * kTimeoutSeconds / 4);
}

TEST(SessionClient, ARefusalIsALossWithTheCoordinatorsStatus) {
  TestCoordinator coordinator([](SessionStream& stream) {
    v1::CoordinatorMessage message;
    message.mutable_refused()->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
    message.mutable_refused()->set_message("worker runs build 1234, the fleet 5678");
    stream.Write(message);
    Recorder().ReadAll(stream);
    return grpc::Status::OK;
  });
  const auto session = Connected(coordinator);
  Loss loss;
  loss.Watch(*session);
  ASSERT_TRUE(loss.Told());
  const absl::Status expected = absl::FailedPreconditionError("worker runs build 1234, the fleet 5678");
  EXPECT_EQ(loss.status, expected);
  EXPECT_EQ(session->Receive(kPatienceSeconds).status(), expected);
  EXPECT_EQ(session->Send(Hello("late")), expected);
}

TEST(SessionClient, AKilledCoordinatorIsALossThatNamesIt) {
  absl::Notification begun;
  TestCoordinator coordinator([&](SessionStream& stream) {
    begun.Notify();
    Recorder().ReadAll(stream);
    return grpc::Status::OK;
  });
  const auto session = Connected(coordinator, /*reconnect_seconds=*/0.3);
  Loss loss;
  loss.Watch(*session);
  begun.WaitForNotification();
  coordinator.Kill();
  ASSERT_TRUE(loss.Told());
  EXPECT_EQ(loss.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(loss.status.message()), HasSubstr(coordinator.address()));
  EXPECT_EQ(session->Receive(0).status(), loss.status);
}

// Breaks the stream as a coordinator's end would.
const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "gone");

TEST(SessionClient, ABrokenStreamIsFollowedByAnotherThatSaysWhatTheWorkerWasDoing) {
  std::atomic<int> streams = 0;
  Recorder second;
  absl::Notification back;
  TestCoordinator coordinator([&](SessionStream& stream) {
    if (++streams == 1) {
      v1::WorkerMessage hello;
      stream.Read(&hello);
      stream.Write(Welcome(7, 2));
      v1::CoordinatorMessage start;
      start.set_generation(7);
      start.mutable_assignment()->set_rank(3);
      stream.Write(start);
      start.mutable_start()->set_step(4);
      stream.Write(start);
      for (int step = 0; step < 2; ++step) stream.Read(&hello);
      return kBroken;
    }
    v1::WorkerMessage hello;
    stream.Read(&hello);
    second.messages.push_back(hello);
    back.WaitForNotification();  // nothing follows the Hello until it is answered
    stream.Write(Welcome(7, 2));
    second.ReadAll(stream);
    return grpc::Status::OK;
  });
  Loss loss;
  {
    const auto session = Connected(coordinator);
    loss.Watch(*session);
    ASSERT_TRUE(session->Send(Hello("node-1")).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->Receive(kPatienceSeconds).ok());
    v1::WorkerMessage step;
    for (int number = 5; number <= 8; ++number) {
      step.mutable_event()->mutable_step()->set_step(number);
      ASSERT_TRUE(session->Send(step).ok());
    }
    back.Notify();
    EXPECT_TRUE(session->Receive(kPatienceSeconds)->has_welcome());
    v1::WorkerMessage finished;
    finished.mutable_finished()->set_step(8);
    ASSERT_TRUE(session->Send(finished).ok());
  }
  ASSERT_TRUE(second.ended.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)));
  EXPECT_FALSE(loss.told.HasBeenNotified());
  ASSERT_EQ(second.messages.size(), 6u);
  const v1::Rejoin& rejoin = second.messages[0].hello().rejoin();
  EXPECT_EQ(second.messages[0].hello().host(), "node-1");
  EXPECT_EQ(rejoin.generation(), 7u);
  EXPECT_EQ(rejoin.assignment().rank(), 3);
  EXPECT_EQ(rejoin.start().step(), 4);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(second.messages[i].event().step().step(), 4 + i);
  EXPECT_TRUE(second.messages[5].has_finished());
}

TEST(SessionClient, AWorkerThatIsRefusedWhenItComesBackIsLost) {
  std::atomic<int> streams = 0;
  TestCoordinator coordinator([&](SessionStream& stream) {
    v1::WorkerMessage hello;
    stream.Read(&hello);
    if (++streams == 1) return kBroken;
    v1::CoordinatorMessage refused;
    refused.mutable_refused()->set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
    refused.mutable_refused()->set_message("left behind");
    stream.Write(refused);
    return grpc::Status::OK;
  });
  const auto session = Connected(coordinator);
  Loss loss;
  loss.Watch(*session);
  ASSERT_TRUE(session->Send(Hello("a")).ok());
  ASSERT_TRUE(loss.Told());
  EXPECT_EQ(loss.status, absl::FailedPreconditionError("left behind"));
  EXPECT_EQ(streams, 2);
}

TEST(SessionClient, StepsGoOnWithoutACoordinatorAndFillNoQueue) {
  std::atomic<int> streams = 0;
  absl::Notification unanswered;
  TestCoordinator coordinator([&](SessionStream& stream) {
    v1::WorkerMessage hello;
    stream.Read(&hello);
    if (++streams == 2) unanswered.Notify();
    return kBroken;
  });
  const auto session = Connected(coordinator, /*reconnect_seconds=*/kPatienceSeconds);
  ASSERT_TRUE(session->Send(Hello("a")).ok());
  ASSERT_TRUE(unanswered.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)));
  v1::WorkerMessage step;
  for (int number = 1; number <= 50'000; ++number) {
    step.mutable_event()->mutable_step()->set_step(number);
    ASSERT_TRUE(session->Send(step).ok()) << number;
  }
}

TEST(SessionClient, ALossBeforeTheHandlerIsSetIsStillTold) {
  TestCoordinator coordinator([](SessionStream&) { return grpc::Status(grpc::StatusCode::ABORTED, "fleet is full"); });
  const auto session = Connected(coordinator);
  EXPECT_EQ(session->Receive(kPatienceSeconds).status().code(), absl::StatusCode::kAborted);
  Loss loss;
  loss.Watch(*session);
  ASSERT_TRUE(loss.Told());
  EXPECT_THAT(std::string(loss.status.message()), HasSubstr("fleet is full"));
}

TEST(SessionClient, MessagesBeforeTheLossAreStillReceived) {
  TestCoordinator coordinator([](SessionStream& stream) {
    stream.Write(Welcome(1, 2));
    return grpc::Status::OK;
  });
  const auto session = Connected(coordinator);
  Loss loss;
  loss.Watch(*session);
  ASSERT_TRUE(loss.Told());
  EXPECT_TRUE(session->Receive(0).ok());
  EXPECT_EQ(session->Receive(0).status().code(), absl::StatusCode::kUnavailable);
}

TEST(SessionClient, TheEndAfterCompleteIsNoLoss) {
  TestCoordinator coordinator([](SessionStream& stream) {
    v1::CoordinatorMessage message;
    message.mutable_complete();
    stream.Write(message);
    return grpc::Status::OK;
  });
  bool told = false;
  {
    const auto session = Connected(coordinator);
    session->OnLost([&](const absl::Status&) { told = true; });
    const auto message = session->Receive(kPatienceSeconds);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_TRUE(message->has_complete());
    const absl::Status end = session->Receive(kPatienceSeconds).status();
    EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(end.message()), HasSubstr("complete"));
  }
  EXPECT_FALSE(told);
}

TEST(SessionClient, TheDestructorDeliversWhatWasSent) {
  constexpr size_t kMessages = 500;
  Recorder recorder;
  TestCoordinator coordinator([&](SessionStream& stream) {
    recorder.ReadAll(stream);
    return grpc::Status::OK;
  });
  {
    const auto session = Connected(coordinator);
    for (size_t i = 0; i < kMessages; ++i) ASSERT_TRUE(session->Send(Hello(std::to_string(i))).ok());
  }
  ASSERT_TRUE(recorder.ended.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)));
  ASSERT_EQ(recorder.messages.size(), kMessages);
  EXPECT_EQ(recorder.messages.back().hello().host(), std::to_string(kMessages - 1));
}

TEST(SessionClient, ACoordinatorThatReadsNothingHoldsNobodyUp) {
  absl::Notification over;
  TestCoordinator coordinator([&](SessionStream&) {
    over.WaitForNotification();
    return grpc::Status::OK;
  });
  {
    auto session = SessionClient::Connect(
        {.coordinator = coordinator.address(), .connect_timeout_seconds = 10, .linger_seconds = 0.05});
    ASSERT_TRUE(session.ok());
    absl::Status sent;
    for (int i = 0; i < 100'000 && sent.ok(); ++i) sent = (*session)->Send(Hello(std::string(1000, 'x')));
    EXPECT_EQ(sent.code(), absl::StatusCode::kUnavailable) << sent;
  }
  over.Notify();
}

TEST(SessionClient, AnUnreachableCoordinatorIsUnavailableAndNamed) {
  std::string address;
  {
    TestCoordinator gone([](SessionStream&) { return grpc::Status::OK; });
    address = gone.address();
  }
  const auto session = SessionClient::Connect({.coordinator = address, .connect_timeout_seconds = 0.3});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(session.status().message()), HasSubstr(address));
}

TEST(SessionClient, ConnectingCanBeCancelled) {
  const auto session = SessionClient::Connect(
      {.coordinator = "127.0.0.1:1", .connect_timeout_seconds = 3600, .cancelled = [] { return true; }});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kCancelled);
}

TEST(SessionClient, MalformedAddressesAreUsageErrors) {
  for (const char* address : {"", "node-1", "node-1:", "node-1:x", ":7070", "node-1:70700", "node-1:0"}) {
    const auto session = SessionClient::Connect({.coordinator = address, .connect_timeout_seconds = 0});
    EXPECT_EQ(session.status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace zerofleet::services
