// `zerofleet status`: what a fleet is doing now.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/identity_flags.h"
#include "cli/commands/tls_flags.h"
#include "cli/report/status_text.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "services/session/operator_client.h"

namespace zerofleet::cli {
namespace {

constexpr double kTimeoutSeconds = 5;
constexpr char kHome[] = "\x1b[H", kClearLineEnd[] = "\x1b[K", kClearBelow[] = "\x1b[J";

struct StatusFlags {
  std::string coordinator;
  bool json = false, watch = false, partitions = false, flight = false;
  services::TlsFiles tls;
  std::string token_file;
};

// The text that draws one picture over the last on a live terminal, without flicker; lines that do not fit are left
// out, since a screen that scrolls cannot be drawn over. Elsewhere pictures follow one another.
std::string Picture(const std::string& text, const Terminal& terminal) {
  if (!terminal.live()) return text + "\n";
  std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(text).substr(0, text.find_last_not_of('\n') + 1), '\n');
  const auto rows = static_cast<size_t>(terminal.rows());
  if (rows > 1 && lines.size() >= rows) {
    const size_t left_out = lines.size() - (rows - 2);
    lines.resize(rows - 2);
    lines.push_back(absl::StrCat("and ", left_out, " more lines"));
  }
  return absl::StrCat(kHome, absl::StrJoin(lines, absl::StrCat(kClearLineEnd, "\n")), kClearLineEnd, "\n", kClearBelow);
}

absl::StatusOr<int> RunStatus(const StatusFlags& flags, const Output& output) {
  ZF_ASSIGN_OR_RETURN(const std::string token, ReadToken(flags.token_file));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::OperatorClient> client,
                      services::OperatorClient::Create(flags.coordinator, flags.tls, token));
  v1::GetStatusRequest request;
  request.set_partitions(flags.partitions);
  request.set_flight(flags.flight);
  while (true) {
    ZF_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, client->GetStatus(kTimeoutSeconds, request));
    if (flags.json) {
      output.out << DumpJson(ProtoToJson(status), flags.watch ? -1 : 2) << std::endl;
    } else {
      const std::string text = StatusText(status, output.out_terminal);
      output.out << (flags.watch ? Picture(text, output.out_terminal) : text) << std::flush;
    }
    if (!output.out.good()) return 0;  // the reader has closed the pipe
    if (!flags.watch || status.phase() == "done" || status.phase() == "failed") return 0;
    absl::SleepFor(absl::Seconds(1));
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand("status", "Show what a fleet is doing: its phase, its members, their steps.");
  command->add_option("--coordinator", flags->coordinator, "The coordinator's address")
      ->required()
      ->type_name("HOST:PORT");
  command->add_flag("--json", flags->json, "Print one JSON document; with --watch, one per line");
  command->add_flag("--partitions", flags->partitions,
                    "Also show which rank owns which part of each unit, and its bytes of each state");
  command->add_flag("--flight", flags->flight,
                    "Also show what each rank's collectives were doing when a rank was last lost");
  command->add_flag("--watch", flags->watch, "Refresh every second until the run has ended");
  AddTokenFlag(*command, flags->token_file);
  AddClientTlsFlags(*command, flags->tls);
  command->footer("Example:\n  zerofleet status --coordinator 10.0.0.1:7070 --watch");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunStatus(*flags, output); }; });
}

}  // namespace zerofleet::cli
