// `zerofleet status`: what a fleet is doing now.
#include <memory>
#include <ostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/status_text.h"
#include "cli/tls_flags.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "services/operator_client.h"

namespace zerofleet {
namespace {

constexpr double kTimeoutSeconds = 5;
constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

struct StatusFlags {
  std::string coordinator;
  bool json = false, watch = false;
  TlsFiles tls;
};

absl::StatusOr<int> RunStatus(const StatusFlags& flags, const Output& output) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<OperatorClient> client,
                      OperatorClient::Create(flags.coordinator, flags.tls));
  while (true) {
    ZF_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, client->GetStatus(kTimeoutSeconds));
    if (flags.json) {
      output.out << DumpJson(ProtoToJson(status), flags.watch ? -1 : 2) << std::endl;
    } else {
      output.out << (flags.watch ? kClearScreen : "") << StatusText(status) << std::flush;
    }
    if (!flags.watch || status.phase() == "done" || status.phase() == "failed") return 0;
    absl::SleepFor(absl::Seconds(1));
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "Show what a fleet is doing: its phase, its members, their steps.");
  command->add_option("--coordinator", flags->coordinator, "HOST:PORT of the coordinator")->required();
  command->add_flag("--json", flags->json, "Print one JSON document; with --watch, one a line");
  command->add_flag("--watch", flags->watch, "Show it again every second until the run has ended");
  AddClientTlsFlags(*command, flags->tls);
  command->footer("Example:\n  zerofleet status --coordinator 10.0.0.1:7070 --watch");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunStatus(*flags, output); }; });
}

}  // namespace zerofleet
