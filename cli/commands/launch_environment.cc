// See launch_environment.h.
#include "cli/commands/launch_environment.h"

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::cli {
namespace {

constexpr size_t kMostShown = 60;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The number at the beginning of "8(x2)"; 0 if there is none.
int LeadingNumber(const std::string& text) {
  int number = 0;
  return absl::SimpleAtoi(text.substr(0, text.find_first_not_of("0123456789")), &number) ? number : 0;
}

absl::Status NotAlone(int workers, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--local ", workers, ": starts the workers of a node, and this is one process of several there (",
                   why, "); run it once per node, by srun with --ntasks-per-node=1, and without torchrun"));
}

}  // namespace

LaunchEnvironment LaunchEnvironment::Current() {
  return {.local_rank = Variable("LOCAL_RANK"),
          .local_world_size = Variable("LOCAL_WORLD_SIZE"),
          .master_addr = Variable("MASTER_ADDR"),
          .slurm_localid = Variable("SLURM_LOCALID"),
          .slurm_tasks_per_node = Variable("SLURM_STEP_TASKS_PER_NODE"),
          .slurmd_nodename = Variable("SLURMD_NODENAME")};
}

absl::StatusOr<int> LocalRank(const LaunchEnvironment& environment, std::optional<int> flag) {
  if (flag) return *flag;
  const bool torchrun = !environment.local_rank.empty();
  const std::string& text = torchrun ? environment.local_rank : environment.slurm_localid;
  if (text.empty()) return 0;
  int number = -1;
  if (absl::SimpleAtoi(text, &number) && number >= 0 && number <= kMostLocalRank) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(torchrun ? "LOCAL_RANK" : "SLURM_LOCALID", ": must be 0 to ", kMostLocalRank, ", got \"",
                   absl::CHexEscape(text.substr(0, kMostShown)), "\"; correct it, or give --local-rank"));
}

std::string NodeName(const LaunchEnvironment& environment, const std::string& flag) {
  return flag.empty() ? environment.slurmd_nodename : flag;
}

absl::Status CheckAloneOnNode(const LaunchEnvironment& environment, int workers) {
  if (const int size = LeadingNumber(environment.local_world_size); size > 1) {
    return NotAlone(workers, absl::StrCat("LOCAL_WORLD_SIZE is ", size));
  }
  if (const int tasks = LeadingNumber(environment.slurm_tasks_per_node); tasks > 1) {
    return NotAlone(workers, absl::StrCat("SLURM_STEP_TASKS_PER_NODE is ", tasks));
  }
  return absl::OkStatus();
}

absl::Status CheckCoordinatorGiven(const LaunchEnvironment& environment, const std::string& coordinator) {
  if (!coordinator.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--coordinator: is missing; give HOST:PORT of `zerofleet coordinator`",
      environment.master_addr.empty()
          ? ""
          : absl::StrCat(" (MASTER_ADDR, ", absl::CHexEscape(environment.master_addr.substr(0, kMostShown)),
                         ", is where torch.distributed meets, which a fleet does not)")));
}

}  // namespace zerofleet::cli
