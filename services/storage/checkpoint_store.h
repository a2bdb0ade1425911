// The coordinator's access to the checkpoint directory: what a run may resume from, commits, and pruning.
#ifndef ZEROFLEET_SERVICES_STORAGE_CHECKPOINT_STORE_H_
#define ZEROFLEET_SERVICES_STORAGE_CHECKPOINT_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/directory_lock.h"
#include "base/directory_probe.h"
#include "coordinator/fleet.h"
#include "services/storage/directory_epoch.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::services {

struct ResumePlan {
  std::vector<coordinator::CheckpointCandidate> candidates;  // newest first
  bool may_fall_back = false;
  uint64_t newest_generation = 0;  // the largest of any candidate or unfinished save; the run's own must be larger
  int64_t newest_unix_seconds = 0;
  std::vector<std::string> unreadable;  // step directories whose manifest is invalid
  std::vector<std::string> notices;     // one line each: checkpoints that are not used, and what resuming changes
};

// `resume` is "auto" (every committed checkpoint in the configured directory), "none", or the path of one step
// directory, which must hold a valid manifest. OutOfRange if the newest candidate is another model's or optimizer's.
// DataLoss if there are checkpoints but none with a valid manifest: a run never starts over by itself if there is
// something to resume.
//
// With "auto" the directory is compared with `state`, this run's state in `state_dir`: a checkpoint that is not the one
// committed at its step is not used, and the result is DataLoss if neither the newest commit nor a later one is there.
absl::StatusOr<ResumePlan> PlanResume(const std::string& resume, const v1::Config& config,
                                      const coordinator::CoordinatorState& state = {},
                                      const std::string& state_dir = "");

// One line for each thing that changes when a run with `config` resumes from `manifest` (at `path`): another context,
// another team, or a learning rate that jumps because the schedule differs.
std::vector<std::string> ResumeNotices(const v1::Config& config, const std::string& path,
                                       const v1::CheckpointManifest& manifest);

// Commits checkpoints to one directory, whose lock it holds while it lives, and keeps the newest `keep`. Thread-safe.
//
// Every change of the directory is preceded by a check that it is still this coordinator's (directory_epoch.h): if it
// is another's, or that is not known, nothing is changed.
class CheckpointStore {
 public:
  // Takes the directory's lock, tries out its file system, takes its epoch, and lists what is committed there; pruning
  // never lists again. `generation` is the run's newest known one. FailedPrecondition if another run still holds the
  // directory after `patience` (a run that was killed takes a moment to release it), or if no checkpoint can be
  // committed safely there. DataLoss for an epoch file that is not understood.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(const std::string& dir, int64_t keep,
                                                               absl::Duration patience = absl::ZeroDuration(),
                                                               uint64_t generation = 0);

  // Sets the tokenizer files that each checkpoint committed from now on carries. `from` is where workers read them; if
  // that is a checkpoint in this directory, it is never pruned. Call it before any commit.
  void CarryTokenizer(checkpoint::TokenizerFiles files, const std::string& from);

  // The directory's file system and its weaknesses.
  const DirectoryTraits& traits() const { return traits_; }

  // Removes what unfinished saves of generations up to `last_generation` left behind. What cannot be removed is left to
  // the next start.
  void RemoveUnfinished(uint64_t last_generation) const;

  // Removes what an earlier release's removal of a checkpoint left behind, if it is older than a minute.
  void RemoveLeftovers(absl::Time now) const;

  // Checks and commits the shards that the ranks of `manifest`'s generation wrote, then removes the oldest checkpoints
  // beyond `keep`. What cannot be removed is a warning: the commit stands. The directory and the number kept are this
  // store's own, whatever the manifest's configuration says.
  absl::StatusOr<coordinator::CommittedStep> Commit(v1::CheckpointManifest manifest, int64_t unix_seconds);
  // Reads a checkpoint, in this directory or another, and says whether it is whole and the one that was committed.
  absl::Status Verify(const coordinator::VerifyCheckpoint& verify);
  // Bytes that commits and Verify have read so far, which shows whether one that is under way makes progress. Any
  // thread.
  int64_t stored_bytes() const { return stored_bytes_; }

  // Removes what the ranks of `discard.generation` wrote for a save that failed, and what older generations left: on a
  // full disk the next save needs the room. No rank of that generation may still write for that step.
  void Discard(const coordinator::DiscardSave& discard) const;

  // Renames a damaged step directory to "<name>.damaged", or with a number appended if that name is taken.
  absl::Status SetAside(const std::string& step_dir);

  // DirectoryEpoch::Check for the directory. Any thread.
  absl::Status CheckHeld() const { return epoch_->Check(); }

  // DirectoryLock::Renew for the directory: true if it was removed and has been created again, empty. AlreadyExists
  // also if another coordinator has taken the directory over; DataLoss or Unavailable if that is not known. From one
  // thread.
  absl::StatusOr<bool> Renew();

 private:
  CheckpointStore(std::string dir, int64_t keep, std::unique_ptr<DirectoryLock> lock, DirectoryTraits traits,
                  std::unique_ptr<DirectoryEpoch> epoch, std::set<int64_t> steps)
      : dir_(std::move(dir)),
        keep_(keep),
        lock_(std::move(lock)),
        traits_(std::move(traits)),
        epoch_(std::move(epoch)),
        steps_(std::move(steps)) {}

  // Removes the oldest checkpoints beyond `keep_`, and returns a warning for each that cannot be removed.
  std::vector<std::string> Prune() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string dir_;
  const int64_t keep_;
  v1::BestLoss best_ ABSL_GUARDED_BY(mutex_);  // the newest manifest's: that save is kept beyond `keep_`
  const std::unique_ptr<DirectoryLock> lock_;
  const DirectoryTraits traits_;
  const std::unique_ptr<DirectoryEpoch> epoch_;
  checkpoint::TokenizerFiles tokenizer_;
  int64_t tokenizer_step_ = -1;  // the checkpoint from which workers read it; -1: none
  bool emptied_ = false;         // it was emptied, and Renew has not reported that yet; used only by Renew
  absl::Mutex mutex_;
  std::atomic<int64_t> stored_bytes_ = 0;
  std::set<int64_t> steps_ ABSL_GUARDED_BY(mutex_);  // committed and not set aside
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_CHECKPOINT_STORE_H_
