// Starting the coordinator to be measured; see bench_coordinator.h.
#include "cli/commands/bench_coordinator.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/launcher/child_process.h"
#include "cli/launcher/temporary_directory.h"
#include "coordinator/placement.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kStartSeconds = 30;
constexpr char kListening[] = "listening on ";

// The configuration of a run of `members` workers. Its model is partitioned but never built, and its data never read.
Json ConfigOf(int members, const std::string& directory) {
  return {{"model", {{"preset", "gpt2-124m"}}},
          {"data", {{"train", {"unread"}}}},
          {"parallel", {{"workers", members}}},
          {"batch", {{"global_sequences", members}, {"micro_sequences", 1}}},
          {"steps", 1'000'000},
          {"checkpoint", {{"dir", JoinPath(directory, "checkpoints")}}},
          {"restart",
           {{"heartbeat_timeout_seconds", 10}, {"form_timeout_seconds", 600}, {"max_per_rank", 1000}, {"spares", 1}}}};
}

}  // namespace

void AddCoordinatorFlags(CLI::App& command, bench::CoordinatorBenchOptions& options) {
  command.add_option("--members", options.members, "Members, each a session that does nothing but answer")
      ->check(CLI::Range(1, coordinator::kMostRanks - 1))
      ->capture_default_str();
  command
      .add_option("--sessions-per-connection", options.sessions_per_connection,
                  "Sessions that share a connection; the workers of a run have one each")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command.add_option("--peers", options.peers, "Others whose addresses each member asks for in a view of more than 64")
      ->check(CLI::Range(0, coordinator::kMostPeersWanted))
      ->capture_default_str();
  command.add_option("--losses", options.losses, "Members that are lost, one after the other")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_option("--heartbeats", options.heartbeats_per_second, "Heartbeats a second, of all members together")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--seconds", options.heartbeat_seconds, "For how long heartbeats are sent")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
}

absl::StatusOr<bench::CoordinatorRate> BenchOwnCoordinator(bench::CoordinatorBenchOptions options) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> directory, TemporaryDirectory::Create());
  const std::string config = JoinPath(directory->path(), "config.json");
  ZF_RETURN_IF_ERROR(WriteFileAtomically(config, DumpJson(ConfigOf(options.members, directory->path()), 2) + "\n"));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                      ChildProcess::Start("coordinator",
                                          {"coordinator", "--config", config, "--listen", "127.0.0.1:0", "--state-dir",
                                           JoinPath(directory->path(), "state"), "--log-level", "info", "--quiet"},
                                          JoinPath(directory->path(), "coordinator.log")));
  const absl::StatusOr<std::string> line = child->ReadLine(kStartSeconds);
  if (!line.ok()) return Annotate(line.status(), child->ErrorLine());
  options.coordinator = std::string(absl::StripPrefix(*line, kListening));
  options.pid = child->pid();
  const absl::StatusOr<bench::CoordinatorRate> rate = bench::BenchCoordinator(options);
  const std::string why = rate.ok() || !child->HasEnded() ? "" : child->ErrorLine();
  return why.empty() ? rate : Annotate(rate.status(), absl::StrCat("the coordinator ended: ", why));
}

}  // namespace zerofleet::cli
