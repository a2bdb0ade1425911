// Opening in steps, each with a name and a deadline; see coordinator_storage.h.
#include "services/storage/coordinator_storage.h"

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/directory_probe.h"
#include "base/status.h"
#include "services/storage/coordinator_state.h"
#include "services/storage/storage_calls.h"

namespace zerofleet::services {
namespace {

// Differs from the names of a checkpoint directory's lock and of the launcher's, since all may be in one directory.
constexpr char kStateLockName[] = "coordinator.lock";
constexpr char kStateKey[] = "--state-dir", kCheckpointKey[] = "checkpoint.dir";

absl::Status StateDirectoryCannotBeWritten(const std::string& dir, const absl::Status& why) {
  return absl::ResourceExhaustedError(absl::StrCat(kStateKey, ": ", dir, " cannot be written: ", why.message()));
}

// Without this lock, two coordinators would overwrite each other's state file, generations included.
absl::StatusOr<std::unique_ptr<DirectoryLock>> HoldStateDirectory(const std::string& dir, absl::Duration patience) {
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Acquire(dir, kStateLockName, patience);
  if (absl::IsAlreadyExists(lock.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(kStateKey, ": another coordinator holds ", dir, "; give each run a directory of its own"));
  }
  if (!lock.ok()) return StateDirectoryCannotBeWritten(dir, lock.status());
  return lock;
}

// What the steps use; shared, since a step may end after it was given up.
struct Opening {
  v1::Config config;
  std::string state_dir, resume;
  absl::Duration patience;
  DirectoryTraits state_traits;
  CoordinatorStorage storage;

  const std::string& dir() const { return config.checkpoint().dir(); }

  absl::Status HoldState() {
    ZF_ASSIGN_OR_RETURN(storage.state_lock, HoldStateDirectory(state_dir, patience));
    absl::StatusOr<DirectoryTraits> traits = ProbeDirectory(state_dir);
    if (absl::IsFailedPrecondition(traits.status())) return Annotate(traits.status(), kStateKey);
    if (!traits.ok()) return StateDirectoryCannotBeWritten(state_dir, traits.status());
    state_traits = *std::move(traits);
    return absl::OkStatus();
  }
  absl::Status ReadState() {
    ZF_ASSIGN_OR_RETURN(storage.state, ReadCoordinatorState(state_dir));
    return absl::OkStatus();
  }
  absl::Status OpenStore() {
    ZF_ASSIGN_OR_RETURN(storage.store,
                        CheckpointStore::Open(dir(), config.checkpoint().keep(), patience, storage.state.generation));
    absl::StatusOr<checkpoint::TokenizerFiles> tokenizer = checkpoint::ReadTokenizerFiles(config.data().tokenizer());
    if (!tokenizer.ok()) return Annotate(tokenizer.status(), "data.tokenizer");
    storage.store->CarryTokenizer(*std::move(tokenizer), config.data().tokenizer());
    storage.one_file_system = state_traits.device == storage.store->traits().device;
    return absl::OkStatus();
  }
  absl::Status ReadCheckpoints() {
    ZF_ASSIGN_OR_RETURN(storage.plan, PlanResume(resume, config, storage.state, state_dir));
    storage.previous_generation = std::max(storage.state.generation, storage.plan.newest_generation);
    return absl::OkStatus();
  }
  absl::Status CleanUp() {
    // The newest generation is spared: its fleet may be running, and about to commit.
    if (storage.previous_generation > 0) storage.store->RemoveUnfinished(storage.previous_generation - 1);
    storage.store->RemoveLeftovers(absl::Now());
    return absl::OkStatus();
  }

  // One line for each directory whose file system has weaknesses; one for both if they are on one file system.
  std::vector<std::string> Weaknesses() const {
    std::vector<std::string> lines;
    const auto add = [&](const char* key, const std::string& where, const DirectoryTraits& traits) {
      if (traits.weaknesses.empty()) return;
      lines.push_back(absl::StrCat(key, ": the file system of ", where, " (", traits.file_system, ") ",
                                   absl::StrJoin(traits.weaknesses, "; it ")));
    };
    const DirectoryTraits& traits = storage.store->traits();
    add(kCheckpointKey, dir(), traits);
    if (!storage.one_file_system) add(kStateKey, state_dir, state_traits);
    return lines;
  }
};

struct Step {
  std::string what;
  absl::Status (Opening::*step)();
};

std::vector<Step> StepsOf(const Opening& opening) {
  const std::string state = absl::StrCat(kStateKey, " ", opening.state_dir),
                    dir = absl::StrCat(kCheckpointKey, " ", opening.dir());
  return {{absl::StrCat("the opening of ", state), &Opening::HoldState},
          {absl::StrCat("the reading of ", CoordinatorStatePath(opening.state_dir)), &Opening::ReadState},
          {absl::StrCat("the opening of ", dir), &Opening::OpenStore},
          // Read again: if no lock kept it out, the previous coordinator may have written the state until now.
          {absl::StrCat("the reading of ", CoordinatorStatePath(opening.state_dir)), &Opening::ReadState},
          {absl::StrCat("the reading of the checkpoints in ", dir), &Opening::ReadCheckpoints},
          {absl::StrCat("the removal of unfinished saves in ", dir), &Opening::CleanUp}};
}

// Calls StorageCalls::Tick while it lives.
class Ticker {
 public:
  Ticker(StorageCalls& calls, absl::Duration interval)
      : thread_([this, &calls, interval] {
          while (!done_.WaitForNotificationWithTimeout(interval)) calls.Tick();
        }) {}
  ~Ticker() {
    done_.Notify();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<CoordinatorStorage> OpenCoordinatorStorage(const CoordinatorStorageOptions& options) {
  const auto opening =
      std::make_shared<Opening>(Opening{options.config, options.state_dir, options.resume, options.patience, {}, {}});
  const StorageCalls::Limits limits{options.config.checkpoint().stall_timeout_seconds(),
                                    options.config.restart().form_timeout_seconds()};
  const auto tell = [logger = options.logger](const std::string& line) {
    if (logger != nullptr) logger->Warning(line);
  };
  auto calls = std::make_unique<StorageCalls>(limits, tell, *options.clock);
  absl::Status status;
  {
    const Ticker ticker(*calls, options.tick);
    for (const Step& step : StepsOf(*opening)) {
      status = calls->Run(step.what, [opening, step] { return (*opening.*step.step)(); });
      if (!status.ok()) break;
    }
  }
  if (calls->hangs()) static_cast<void>(calls.release());  // its thread may never come back
  ZF_RETURN_IF_ERROR(status);
  calls.reset();  // which releases the last call's share of `opening`
  std::vector<std::string>& notices = opening->storage.plan.notices;
  std::vector<std::string> weaknesses = opening->Weaknesses();
  notices.insert(notices.begin(), weaknesses.begin(), weaknesses.end());
  return std::move(opening->storage);
}

}  // namespace zerofleet::services
