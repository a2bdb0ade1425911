// Limits on what a hostile worker may send: sizes, names, texts.
#include "services/common/message_limits.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/fingerprint.h"
#include "worker/model/spec.h"
#include "worker/trainer/tensor_table.h"
#include "worker/zero/spread.h"

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

TEST(MessageLimits, AHistogramWithValuesInEveryBucketPasses) {
  v1::WorkerMessage message;
  message.set_generation(1'000'000);
  v1::HistogramEvent& histogram = *message.mutable_event()->mutable_histogram();
  histogram.set_step(1'000'000'000);
  histogram.set_tensor(std::string(512, 't'));
  for (const double limit : zero::Spread::Limits()) {
    histogram.add_limits(limit);
    histogram.add_counts(int64_t{1} << 40);
  }
  EXPECT_TRUE(Admit(message).ok()) << message.ByteSizeLong();
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

v1::ModelConfig LargestModel() {
  v1::ModelConfig model;
  model.set_family("gpt2");
  model.set_layers(10'000);  // the most that a configuration may have
  model.set_hidden(32);
  model.set_heads(1);
  model.set_kv_heads(1);
  model.set_intermediate(128);
  model.set_context(16);
  model.set_vocab(256);
  return model;
}

// Rank 0's shard record, with the longest list of files.
v1::WorkerMessage ShardOf(const v1::ModelConfig& model) {
  v1::WorkerMessage message;
  message.set_generation(~uint64_t{0} >> 1);
  v1::ShardWritten& shard = *message.mutable_shard_written();
  shard.set_step(int64_t{1} << 40);
  shard.set_config_digest(std::string(32, 'f'));
  const absl::StatusOr<model::ModelSpec> spec = model::ModelSpec::Create(model);
  EXPECT_TRUE(spec.ok()) << spec.status();
  trainer::SetTensorTable(*spec, shard.mutable_manifest());
  for (size_t unit = 0; unit < spec->units().size(); ++unit) {
    v1::FlatRange& range = *shard.mutable_file()->add_ranges();
    range.set_flat_begin(int64_t{1} << 50);
    range.set_flat_end(int64_t{1} << 50);
    range.set_offset(int64_t{1} << 50);
  }
  for (v1::DataFiles* files : {shard.mutable_data()->mutable_train(), shard.mutable_data()->mutable_validation()}) {
    data::FileLister lister;
    for (int file = 0; file < 3'000; ++file) {
      lister.Add(absl::StrCat("/data/", std::string(1000, 'd'), file), int64_t{1} << 50, std::string(32, 'f'));
    }
    *files = lister.Done();
    EXPECT_GT(files->more_files(), 0);
  }
  shard.mutable_failure()->set_message(std::string(4096, 'e'));
  return message;
}

TEST(MessageLimits, AShardRecordFitsForTheSmallestModelAndTheLargest) {
  v1::Config config;
  *config.mutable_model() = LargestModel();
  for (const int64_t layers : {int64_t{1}, config.model().layers()}) {
    config.mutable_model()->set_layers(layers);
    const v1::WorkerMessage message = ShardOf(config.model());
    EXPECT_TRUE(Admit(message).ok()) << Admit(message);
    EXPECT_LE(static_cast<int>(message.ByteSizeLong()), MostMessageBytes(config)) << layers;
  }
}

TEST(MessageLimits, FactsAreFewShortAndPrintable) {
  const auto told = [](int facts, const std::string& name, const std::string& value) {
    v1::WorkerMessage message;
    message.mutable_ready()->set_config_digest("c");
    for (int i = 0; i < facts; ++i) {
      v1::Fact& fact = *message.mutable_ready()->add_environment();
      fact.set_name(name);
      fact.set_value(value);
    }
    return Admit(message);
  };
  EXPECT_TRUE(told(32, "oneDNN", "2.6.0").ok());
  for (const absl::Status& refused : {told(33, "oneDNN", "2.6.0"), told(1, std::string(65, 'n'), ""),
                                      told(1, "a", std::string(257, 'v')), told(1, "a", "\x1b[2J")}) {
    EXPECT_EQ(refused.message(),
              "Ready.environment has more than 32 facts, or one that is too long or cannot be printed");
  }
}

// Every text at its limit, and the most entries that are accepted.
TEST(MessageLimits, TheLargestMessageOfEachKindIsTaken) {
  const std::string digest(128, 'd'), name(64, 'n'), unit(256, 'u'), path(4096, 'p'), failure(4096, 'e');
  std::vector<v1::WorkerMessage> messages(10);
  v1::Hello& hello = *(messages[0] = GoodHello()).mutable_hello();
  hello.set_build_id(digest);
  hello.set_version(name);
  hello.set_device("0123456789abcdef");
  hello.set_device_description(unit);
  hello.set_metrics_address(std::string(260, 'a'));
  hello.set_service_address(std::string(260, 'a'));
  hello.set_incarnation(digest);
  v1::Rejoin& rejoin = *(messages[1] = messages[0]).mutable_hello()->mutable_rejoin();
  rejoin.set_config_digest(digest);
  for (int rank = 0; rank < coordinator::kMostInlineRanks; ++rank) {
    rejoin.mutable_assignment()->add_members()->set_host(std::string(253, 'h'));
  }
  for (int step = 0; step < 1000; ++step) rejoin.mutable_start()->add_losses(1.5);
  v1::Ready& ready = *messages[2].mutable_ready();
  ready.set_config_digest(digest);
  for (int i = 0; i < 32; ++i) {
    v1::Fact& fact = *ready.add_environment();
    fact.set_name(name);
    fact.set_value(unit);
  }
  ready.set_transport_address(std::string(62 << 10, 't'));
  for (int entry = 0; entry < 256; ++entry) {
    v1::FlightEntry& each = *ready.mutable_flight()->add_entries();
    each.set_group(name);
    each.set_operation(name);
    each.set_unit(unit);
  }
  for (int snapshot = 0; snapshot < 8; ++snapshot) ready.add_snapshots()->set_rank(1);
  messages[3].mutable_entered()->set_layout_digest(digest);
  messages[3].mutable_entered()->set_schedule_digest(digest);
  messages[4].mutable_load_result()->set_path(path);
  messages[4].mutable_load_result()->mutable_failure()->set_message(failure);
  v1::Heartbeat& heartbeat = *messages[5].mutable_heartbeat();
  for (int group = 0; group < 16; ++group) {
    v1::GroupProgress& progress = *heartbeat.add_progress();
    progress.set_group(name);
    progress.set_operation(name);
    progress.set_unit(unit);
  }
  heartbeat.mutable_save()->set_bytes(int64_t{1} << 50);
  messages[6].mutable_event()->mutable_notice()->set_message(path + failure);
  messages[7].mutable_failure()->set_message(failure);
  for (int rank = 0; rank < coordinator::kMostRanks; ++rank) {
    messages[7].mutable_failure()->mutable_disagreement()->add_ranks(rank);
  }
  messages[8].mutable_finished()->mutable_report()->set_rank(1);
  messages[9].mutable_stop_requested()->set_signal(15);
  for (const v1::WorkerMessage& message : messages) {
    EXPECT_TRUE(Admit(message).ok()) << message.body_case() << ": " << Admit(message);
    EXPECT_LE(static_cast<int>(message.ByteSizeLong()), MostMessageBytes(v1::Config()));
  }
  ready.mutable_transport_address()->push_back('t');
  EXPECT_THAT(std::string(Admit(messages[2]).message()), HasSubstr("Ready.transport_address has 63489 bytes"));
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
            "?31m");  // CSI as one character
  EXPECT_EQ(PrintableText("\xff\xC3", 100), "??");
  EXPECT_EQ(PrintableText("abcdef", 3), "abc... (3 bytes more)");
}

TEST(MessageLimits, AServerTakesWhatItsModelNeeds) {
  v1::Config config;
  config.mutable_model()->set_layers(12);
  EXPECT_EQ(MostMessageBytes(config), (512 << 10) + 12 * (2 << 10));
  config.mutable_model()->set_layers(1'000'000);
  EXPECT_EQ(MostMessageBytes(config), 24 << 20);
}

}  // namespace
}  // namespace zerofleet::services
