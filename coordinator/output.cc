// Outputs as text, for logs and transcripts; see output.h.
#include "coordinator/output.h"

#include <google/protobuf/text_format.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zerofleet::coordinator {
namespace {

std::string OneLine(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  absl::StripTrailingAsciiWhitespace(&text);
  return absl::StrCat("{", text, "}");
}

struct Describer {
  std::string operator()(const SendTo& send) const {
    v1::CoordinatorMessage message = *send.message;
    if (message.has_welcome()) message.mutable_welcome()->clear_config();
    return absl::StrCat("send ", send.member, " ", OneLine(message));
  }
  std::string operator()(const WriteManifest& write) const {
    v1::CheckpointManifest manifest = write.manifest;
    manifest.clear_config();
    manifest.clear_data();
    manifest.clear_environment();
    return absl::StrCat("write manifest ", OneLine(manifest));
  }
  std::string operator()(const DiscardSave& discard) const {
    return absl::StrCat("discard the save of step ", discard.step, " of generation ", discard.generation);
  }
  std::string operator()(const VerifyCheckpoint& verify) const {
    return absl::StrCat("verify ", verify.path, " of step ", verify.step, verify.digest.empty() ? "" : " ",
                        verify.digest);
  }
  std::string operator()(const PublishEvent& publish) const {
    v1::Event event = publish.event;
    if (event.has_start()) event.mutable_start()->clear_config();
    return absl::StrCat("publish ", OneLine(event));
  }
  std::string operator()(const PersistState& persist) const {
    std::string text = absl::StrCat("persist generation ", persist.state.generation, " last commit ",
                                    persist.state.last_committed_step);
    for (const Rollback& each : persist.state.rollbacks) {
      absl::StrAppend(&text, " rollback {step ", each.step, " to ", each.resumed_step, " skips ", each.first_sample,
                      " to ", each.end_sample, "}");
    }
    for (const CommittedManifest& each : persist.state.manifests) {
      absl::StrAppend(&text, " manifest {step ", each.step, " ", each.digest, "}");
    }
    return text;
  }
  std::string operator()(const SetAside& aside) const { return absl::StrCat("set aside ", aside.path); }
  std::string operator()(const KeepFlight& keep) const {
    std::vector<int> ranks;
    for (const v1::FlightRecord& record : keep.flight.ranks()) ranks.push_back(record.rank());
    return absl::StrCat("keep flight of generation ", keep.flight.generation(), ", ranks ", absl::StrJoin(ranks, " "));
  }
  std::string operator()(const CloseSession& close) const { return absl::StrCat("close ", close.member); }
  std::string operator()(const BreakSession& broken) const { return absl::StrCat("break ", broken.member); }
  std::string operator()(const EndRun& end) const { return absl::StrCat("end ", end.status.ToString()); }
};

}  // namespace

std::string Describe(const Output& output) {
  return absl::StrCat(std::visit(Describer(), output.action), " (", output.reason, ")");
}

}  // namespace zerofleet::coordinator
