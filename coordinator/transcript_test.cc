// The coordinator against written transcripts (testdata/*.txt): events in, outputs as text.
//
// clang-format off
//   # a comment
//   setup workers=2 heartbeat=2 form=300 previous=0 fallback=1 restarts=0 spares=0 hang=0 every=0 minimum=0 global=8 micro=0
//         team=4 agreement=strict within=0
//         candidates=ckpt/b:20,ckpt/a:10:2 rollbacks=3 window=0 skipped=15:10:80:120 inline=64
//                                               on one line; a candidate is path:step[:team[:digest[:bytes]]];
//                                               rollbacks is how many there may be in a row; skipped is
//                                               step:resumed:first:end of one before; the model has one unit, w, of 64
//                                               elements
//   0.5 from 1: hello { host: "a" pid: 11 }     at 0.5 s session 1 sends this WorkerMessage (text format); its generation
//                                               is the fleet's unless it is written out
//   1.0 closed 1: stream reset                  the session ended
//   1.0 tick
//   9.0 ticks                                   one every 0.5 s, from the last line's time on
//   1.0 stop: an operator asked
//   1.0 written 20: DATA_LOSS no space          the answer to a manifest: a code and a message, "OK", or "OK; a warning"
//   1.0 written 20 of 1: OK                     the same for generation 1; else for the one that is being committed
//   1.0 committed 20: d20                       OK, and the manifest's digest
//   1.0 emptied                                 the checkpoint directory was removed and created again
//   1.0 verified ckpt/a: OK                     the answer to the verification of a checkpoint: as for a manifest
//   1.0 discarded 20:                           the answer to the removal of what a failed save left
//   1.0 storage lost                            the checkpoint directory belongs to another
//   1.0 status                                  prints the operator's view
//   > send 1 {...} (why)                        what came out of the event above
// clang-format on
//
// With ZF_UPDATE_TRANSCRIPTS=1 the outputs are rewritten in place; read the difference before committing it.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "coordinator/coordinator.h"
#include "coordinator/status_view.h"

namespace zerofleet::coordinator {
namespace {

constexpr char kDirectory[] = "coordinator/testdata";

double ToDouble(const std::string& text) {
  double value = 0;
  EXPECT_TRUE(absl::SimpleAtod(text, &value)) << text;
  return value;
}

int64_t ToInt(const std::string& text) {
  int64_t value = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << text;
  return value;
}

FleetParameters ParseSetup(const std::string& line) {
  FleetParameters parameters;
  parameters.version = "1.2.3";
  v1::Config& config = parameters.config;
  config.mutable_parallel()->set_tensor(1);
  config.set_steps(4);
  config.mutable_batch()->set_global_sequences(8);
  config.mutable_model()->set_context(16);
  parameters.units = {{"w", 0, 64}};
  parameters.elements = 64;
  parameters.states = [](int) { return std::vector<StateVector>{{"parameters", 2, false}, {"master", 4, true}}; };
  config.mutable_restart()->set_heartbeat_timeout_seconds(2);
  config.mutable_restart()->set_form_timeout_seconds(300);
  config.mutable_restart()->set_load_timeout_seconds(300);
  std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  for (size_t i = 1; i < words.size(); ++i) {
    std::pair<std::string, std::string> setting = absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (setting.first == "workers")
      config.mutable_parallel()->set_workers(ToInt(setting.second));
    else if (setting.first == "heartbeat")
      config.mutable_restart()->set_heartbeat_timeout_seconds(ToDouble(setting.second));
    else if (setting.first == "form")
      config.mutable_restart()->set_form_timeout_seconds(ToDouble(setting.second));
    else if (setting.first == "load")
      config.mutable_restart()->set_load_timeout_seconds(ToDouble(setting.second));
    else if (setting.first == "previous")
      parameters.previous_generation = ToInt(setting.second);
    else if (setting.first == "restarts")
      config.mutable_restart()->set_max_per_rank(ToInt(setting.second));
    else if (setting.first == "within")
      config.mutable_restart()->set_window_steps(ToInt(setting.second));
    else if (setting.first == "hang")
      config.mutable_restart()->set_hang_timeout_seconds(ToDouble(setting.second));
    else if (setting.first == "every")
      config.mutable_checkpoint()->set_every_steps(ToInt(setting.second));
    else if (setting.first == "snapshots")
      config.mutable_checkpoint()->set_snapshot_every_steps(ToInt(setting.second));
    else if (setting.first == "minimum")
      config.mutable_restart()->set_min_workers(ToInt(setting.second));
    else if (setting.first == "global")
      config.mutable_batch()->set_global_sequences(ToInt(setting.second));
    else if (setting.first == "tensor")
      config.mutable_parallel()->set_tensor(ToInt(setting.second));
    else if (setting.first == "agreement")
      config.set_agreement(setting.second);
    else if (setting.first == "micro")
      config.mutable_batch()->set_micro_sequences(ToInt(setting.second));
    else if (setting.first == "spares")
      config.mutable_restart()->set_spares(ToInt(setting.second));
    else if (setting.first == "fallback")
      parameters.may_fall_back = setting.second == "1";
    else if (setting.first == "inline")
      parameters.most_inline_ranks = static_cast<int>(ToInt(setting.second));
    else if (setting.first == "team")
      config.mutable_parallel()->set_team(setting.second);
    else if (setting.first == "rollbacks") {
      config.set_on_divergence("rollback");
      config.mutable_divergence()->set_max_rollbacks(ToInt(setting.second));
    } else if (setting.first == "window") {
      config.mutable_divergence()->set_spike_factor(2);
      config.mutable_divergence()->set_window_steps(ToInt(setting.second));
    } else if (setting.first == "skipped") {
      const std::vector<std::string> parts = absl::StrSplit(setting.second, ':');
      parameters.rollbacks.push_back({ToInt(parts[0]), ToInt(parts[1]), ToInt(parts[2]), ToInt(parts[3]), "loss inf"});
    } else if (setting.first == "candidates") {
      for (const std::string& candidate : std::vector<std::string>(absl::StrSplit(setting.second, ','))) {
        const std::vector<std::string> parts = absl::StrSplit(candidate, ':');
        const int team = parts.size() > 2 ? static_cast<int>(ToInt(parts[2])) : 0;
        const int64_t bytes = parts.size() > 4 ? ToInt(parts[4]) : 0;
        parameters.candidates.push_back({parts[0], ToInt(parts[1]), team, 0, bytes, parts.size() > 3 ? parts[3] : ""});
      }
    } else
      ADD_FAILURE() << "unknown setting " << words[i];
  }
  if (!parameters.candidates.empty()) config.set_steps(std::max(config.steps(), parameters.candidates[0].step));
  return parameters;
}

absl::Status ParseStatus(const std::string& text) {
  if (text == "OK") return absl::OkStatus();
  std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  for (int code = 1; code <= 16; ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == parts.first) {
      return absl::Status(static_cast<absl::StatusCode>(code), parts.second);
    }
  }
  ADD_FAILURE() << "unknown status " << text;
  return absl::UnknownError(text);
}

// "3: rest" -> 3 and "rest".
std::pair<int64_t, std::string> NumberAndRest(const std::string& text) {
  std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  return {ToInt(parts.first), std::string(absl::StripAsciiWhitespace(parts.second))};
}

// "20: OK; a warning" or "20 of 1: OK".
ManifestWritten ParseWritten(const std::string& text, const Fleet& fleet) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const std::pair<std::string, std::string> numbers = absl::StrSplit(parts.first, " of ");
  const std::pair<std::string, std::string> answer =
      absl::StrSplit(absl::StripAsciiWhitespace(parts.second), absl::MaxSplits("; ", 1));
  const int64_t step = ToInt(numbers.first);
  ManifestWritten written{step, ParseStatus(answer.first), {absl::StrCat("ckpt/step-", step), {}}, fleet.generation};
  if (!answer.second.empty()) written.committed.warnings.push_back(answer.second);
  if (!numbers.second.empty()) {
    written.generation = ToInt(numbers.second);
  } else if (const auto commit = fleet.saving.commits.find(step); commit != fleet.saving.commits.end()) {
    written.generation = commit->second.generation;
  }
  return written;
}

CoordinatorEvent ParseEvent(const std::string& text, const Fleet& fleet) {
  std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(absl::ByAnyChar(" :"), 1));
  const auto& [verb, rest] = parts;
  if (verb == "tick") return Tick();
  if (verb == "storage") return StorageLost{absl::NotFoundError("checkpoint.dir: ckpt was removed")};
  if (verb == "emptied") return StorageNotice{"ckpt was removed and is made anew", /*emptied=*/true};
  if (verb == "stop") return StopAsked{std::string(absl::StripAsciiWhitespace(rest))};
  if (verb == "written") return ParseWritten(rest, fleet);
  if (verb == "verified") {
    const std::pair<std::string, std::string> answer = absl::StrSplit(rest, absl::MaxSplits(": ", 1));
    return CheckpointVerified{answer.first, ParseStatus(answer.second)};
  }
  auto [number, body] = NumberAndRest(rest);
  if (verb == "committed") {
    ManifestWritten written = ParseWritten(absl::StrCat(number, ": OK"), fleet);
    written.committed.digest = body;
    return written;
  }
  if (verb == "discarded") return SaveDiscarded{number, fleet.generation};
  if (verb == "closed") return SessionClosed{static_cast<MemberId>(number), body};
  EXPECT_EQ(verb, "from") << text;
  MessageReceived received{static_cast<MemberId>(number), {}};
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(body, &received.message)) << body;
  if (received.message.generation() == 0) received.message.set_generation(fleet.generation);
  if (received.message.has_shard_written() && received.message.shard_written().config_digest().empty()) {
    received.message.mutable_shard_written()->set_config_digest(fleet.config_digest);
  }
  if (received.message.hello().rejoin().has_assignment() && received.message.hello().rejoin().config_digest().empty()) {
    received.message.mutable_hello()->mutable_rejoin()->set_config_digest(fleet.config_digest);
  }
  return received;
}

// The transcript with its actual outputs.
std::string Replay(const std::string& transcript) {
  std::unique_ptr<Coordinator> coordinator;
  std::string actual;
  double last = 0;  // seconds
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(absl::StripSuffix(transcript, "\n"), '\n'))) {
    if (!line.empty() && line[0] == '>') continue;
    absl::StrAppend(&actual, line, "\n");
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind("setup", 0) == 0) {
      coordinator = std::make_unique<Coordinator>(ParseSetup(line), 0);
      last = 0;
      continue;
    }
    std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double now = ToDouble(parts.first);
    if (parts.second.rfind("status", 0) == 0) {
      v1::GetStatusRequest request;
      request.set_partitions(parts.second == "status partitions");
      request.set_flight(parts.second == "status flight");
      const v1::GetStatusResponse status = StatusOf(coordinator->fleet(), now, request);
      absl::StrAppend(&actual, "> ", status.ShortDebugString(), "\n");
      continue;
    }
    const bool ticks = parts.second == "ticks";
    for (double at = ticks ? last + 0.5 : now; at < now + 0.25; at += 0.5) {
      for (const Output& output :
           coordinator->Step(ticks ? Tick() : ParseEvent(parts.second, coordinator->fleet()), at)) {
        absl::StrAppend(&actual, "> ", Describe(output), "\n");
      }
      if (!ticks) break;
    }
    last = now;
  }
  return actual;
}

class TranscriptTest : public testing::TestWithParam<std::string> {};

TEST_P(TranscriptTest, OutputsAreAsWritten) {
  std::string path = JoinPath(kDirectory, GetParam());
  absl::StatusOr<std::string> expected = ReadSmallFile(path, 1 << 20);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::string actual = Replay(*expected);
  if (std::getenv("ZF_UPDATE_TRANSCRIPTS") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(path, actual).ok());
    return;
  }
  EXPECT_EQ(*expected, actual);
}

std::vector<std::string> Transcripts() {
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(kDirectory);
  return names.ok() ? *names : std::vector<std::string>();
}

INSTANTIATE_TEST_SUITE_P(All, TranscriptTest, testing::ValuesIn(Transcripts()),
                         [](const auto& info) { return std::string(info.param.substr(0, info.param.find('.'))); });

TEST(TranscriptTest, ThereAreTranscripts) { EXPECT_GE(Transcripts().size(), 12u); }

}  // namespace
}  // namespace zerofleet::coordinator
