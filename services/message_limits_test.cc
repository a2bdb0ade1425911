// What a hostile worker may send: sizes, names, texts.
#include "services/message_limits.h"

#include <cmath>

#include "coordinator/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;

absl::Status Admit(v1::WorkerMessage message) { return AdmitMessage(message.ByteSizeLong(), message); }

v1::WorkerMessage GoodHello() {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_build_id(std::string(40, 'b'));
  hello.set_version("1.2.3");
  hello.set_host(std::string(253, 'h'));
  hello.set_device("cuda");
  hello.set_device_description("a device ü");
  return message;
}

TEST(MessageLimits, AWorkersOwnMessagesPass) {
  EXPECT_TRUE(Admit(GoodHello()).ok());
  v1::WorkerMessage message;
  message.mutable_ready()->set_transport_address(std::string(32'000, '\0'));
  message.mutable_ready()->set_config_digest(std::string(64, 'f'));
  EXPECT_TRUE(Admit(message).ok());
  message.mutable_heartbeat()->add_progress()->set_unit("block11");
  EXPECT_TRUE(Admit(message).ok());
  for (int tensor = 0; tensor < 2000; ++tensor) {
    message.mutable_shard_written()->mutable_manifest()->add_tensors()->set_name(std::string(64, 't'));
  }
  EXPECT_TRUE(Admit(message).ok());
  EXPECT_LT(message.ByteSizeLong(), 256u << 10);
}

TEST(MessageLimits, WhatTheLargestFleetSaysPasses) {
  v1::WorkerMessage message;
  for (int i = 0; i < coordinator::kMostPeersWanted; ++i) {
    message.mutable_peers_wanted()->add_ranks(coordinator::kMostRanks - 1);
  }
  EXPECT_TRUE(Admit(message).ok());
  message.mutable_peers_wanted()->add_ranks(0);
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("PeersWanted.ranks has 65 entries; at most 64"));
  message = GoodHello();
  for (int node = 0; node < coordinator::kMostRanks; node += 3) {  // no node has as many ranks as the next
    for (int ranks : {2, 1}) {
      v1::NodeRun& run = *message.mutable_hello()->mutable_rejoin()->mutable_assignment()->add_nodes();
      run.set_nodes(1);
      run.set_ranks(ranks);
    }
  }
  EXPECT_TRUE(Admit(message).ok());
  EXPECT_LE(static_cast<int>(message.ByteSizeLong()), MostMessageBytes(v1::Config()));
}

TEST(MessageLimits, EveryKindIsBounded) {
  const std::string much(300 << 10, 'x');
  v1::WorkerMessage messages[9];
  messages[0].mutable_hello()->set_host(much);
  messages[1].mutable_ready()->set_transport_address(much);
  messages[2].mutable_load_result()->set_path(much);
  messages[3].mutable_heartbeat()->add_progress()->set_unit(much);
  messages[4].mutable_event()->mutable_notice()->set_message(much);
  messages[5].mutable_failure()->set_message(much);
  (*messages[6].mutable_finished()->mutable_report()->mutable_device_memory())[much].set_peak(1);
  messages[7].mutable_stop_requested()->set_signal(2);
  messages[7]
      .mutable_stop_requested()
      ->GetReflection()
      ->MutableUnknownFields(messages[7].mutable_stop_requested())
      ->AddLengthDelimited(99, much);
  messages[8].GetReflection()->MutableUnknownFields(&messages[8])->AddLengthDelimited(99, much);
  for (const v1::WorkerMessage& message : messages) {
    const absl::Status status = Admit(message);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message.body_case();
    EXPECT_LT(status.message().size(), 200u);
  }
}

TEST(MessageLimits, WhoAWorkerIsFitsOneLine) {
  v1::WorkerMessage message = GoodHello();
  message.mutable_hello()->set_host(std::string(254, 'h'));
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("Hello.host has 254 bytes; at most 253"));
  message = GoodHello();
  message.mutable_hello()->set_device("gpu\n{\"level\":\"error\"}");
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("Hello.device"));
  message = GoodHello();
  message.mutable_hello()->set_host("a\x1b[2Jb");
  EXPECT_FALSE(Admit(message).ok());
  message.mutable_ready()->set_config_digest(std::string(129, 'l'));
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("Ready.config_digest has 129 bytes"));
  message.mutable_entered()->set_layout_digest(std::string(129, 'l'));
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("Entered.layout_digest has 129 bytes"));
  message.mutable_entered()->set_layout_digest("l");
  message.mutable_entered()->set_schedule_digest("a\nb");
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("Entered.schedule_digest has characters"));
  for (int group = 0; group < 17; ++group) message.mutable_heartbeat()->add_progress();
  EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("more than 16 groups"));
  message.mutable_heartbeat()->clear_progress();
  for (const double seconds : {-1.0, std::nan(""), HUGE_VAL}) {
    message.mutable_heartbeat()->mutable_pace()->set_backward(seconds);
    EXPECT_THAT(std::string(Admit(message).message()), HasSubstr("Heartbeat.pace must be >= 0 seconds"));
  }
}

TEST(MessageLimits, TextsForPeopleAreCutAndPrintable) {
  v1::WorkerMessage message;
  message.mutable_failure()->set_message("line\nline\x07 " + std::string(5000, 'y'));
  EXPECT_TRUE(AdmitMessage(message.ByteSizeLong(), message).ok());
  EXPECT_THAT(message.failure().message(), HasSubstr("line line? yyy"));
  EXPECT_THAT(message.failure().message(), HasSubstr("y... (2963 bytes more)"));
  message.mutable_shard_written()->mutable_failure()->set_message("\x1b[2J");
  EXPECT_TRUE(AdmitMessage(message.ByteSizeLong(), message).ok());
  EXPECT_EQ(message.shard_written().failure().message(), "?[2J");
}

TEST(MessageLimits, PrintableTextKeepsUtf8AndNothingATerminalObeys) {
  EXPECT_EQ(PrintableText("grün €", 100), "grün €");
  EXPECT_EQ(PrintableText("\xC2\x9B"
                          "31m",
                          100),
            "?31m");  // CSI in one character
  EXPECT_EQ(PrintableText("\xff\xC3", 100), "??");
  EXPECT_EQ(PrintableText("abcdef", 3), "abc... (3 bytes more)");
}

TEST(MessageLimits, AServerTakesWhatItsModelNeeds) {
  v1::Config config;
  config.mutable_model()->set_layers(12);
  EXPECT_EQ(MostMessageBytes(config), (256 << 10) + 12 * (8 << 10));
  config.mutable_model()->set_layers(1'000'000);
  EXPECT_EQ(MostMessageBytes(config), 16 << 20);
}

}  // namespace
}  // namespace zerofleet::services
