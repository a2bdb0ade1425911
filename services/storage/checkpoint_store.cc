// Listing, committing and pruning through the checkpoint catalog; see checkpoint_store.h.
#include "services/storage/checkpoint_store.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "coordinator/divergence.h"
#include "coordinator/placement.h"
#include "google/protobuf/util/message_differencer.h"
#include "services/common/build_info.h"
#include "services/storage/coordinator_state.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/step_name.h"
#include "worker/model/families.h"
#include "worker/optim/schedule.h"

namespace zerofleet::services {
namespace {

constexpr char kLockName[] = ".lock";

void AddCandidate(ResumePlan& plan, const std::string& path, const v1::CheckpointManifest& manifest,
                  const std::string& digest) {
  coordinator::CheckpointCandidate candidate{
      path, manifest.step(), manifest.team(), static_cast<uint64_t>(manifest.generation()), 0, digest};
  for (const v1::ShardFile& file : manifest.files()) candidate.bytes += file.bytes();
  plan.candidates.push_back(std::move(candidate));
  plan.newest_generation = std::max(plan.newest_generation, static_cast<uint64_t>(manifest.generation()));
  plan.newest_unix_seconds =
      std::max(plan.newest_unix_seconds, static_cast<int64_t>(manifest.committed_unix_seconds()));
}

// Checks the checkpoint that the run would resume from, and adds what resuming changes to the notices.
absl::Status JudgeNewest(const v1::Config& config, const std::string& path, const v1::CheckpointManifest& manifest,
                         ResumePlan& plan) {
  ZF_RETURN_IF_ERROR(checkpoint::CheckResumable(manifest, config, path));
  for (std::string& notice : ResumeNotices(config, path, manifest)) plan.notices.push_back(std::move(notice));
  return absl::OkStatus();
}

// Why a checkpoint is not what the run committed at its step; empty if it is, or if that is not known.
std::string WhatWasCommittedInstead(const checkpoint::CommittedCheckpoint& found,
                                    const coordinator::CoordinatorState& state, const std::string& state_dir) {
  const auto known = std::find_if(state.manifests.begin(), state.manifests.end(),
                                  [&](const auto& manifest) { return manifest.step == found.step; });
  if (known == state.manifests.end() || known->digest == found.digest) return "";
  return absl::StrCat(JoinPath(found.path, checkpoint::kManifestName),
                      ": another checkpoint was put there since: its XXH3-128 is ", found.digest,
                      ", this run has committed ", known->digest, " (", CoordinatorStatePath(state_dir),
                      "); if it is meant, use --resume ", found.path);
}

// Why a checkpoint belongs to a course that was given up; empty if it does not. Such a checkpoint was committed without
// the coordinator learning of it, or by one that was taken for dead.
std::string WhyItIsPast(const checkpoint::CommittedCheckpoint& found, const coordinator::CoordinatorState& state,
                        const std::string& state_dir) {
  const int64_t consumed = found.manifest.data_cursor().samples_consumed();
  const coordinator::Rollback* const rollback = coordinator::LeftOutSince(state.rollbacks, consumed);
  if (rollback == nullptr) return "";
  return absl::StrCat(found.path, ": was trained on samples from ", rollback->first_sample, " to ", consumed - 1,
                      ", which this run has left out since it went back from step ", rollback->step, " to step ",
                      rollback->resumed_step, " (", CoordinatorStatePath(state_dir), ")");
}

// DataLoss if the newest commit is missing: a volume that is not mounted looks like a directory in which nothing was
// committed yet.
absl::Status CheckNothingIsMissing(const std::string& dir,
                                   const std::vector<checkpoint::CommittedCheckpoint>& committed,
                                   const std::vector<checkpoint::CheckpointProblem>& problems,
                                   const coordinator::CoordinatorState& state, const std::string& state_dir) {
  const auto is_late_enough = [&](int64_t step) { return step >= state.last_committed_step; };
  if (is_late_enough(committed.empty() ? -1 : committed.front().step)) return absl::OkStatus();
  for (const checkpoint::CheckpointProblem& problem : problems) {  // then it is there, and has a notice
    if (is_late_enough(checkpoint::StepOfDirectory(problem.path))) return absl::OkStatus();
  }
  const std::string text =
      absl::StrCat("but this run has committed step ", state.last_committed_step, " there (",
                   CoordinatorStatePath(state_dir), "): is another volume mounted? If it is meant, ");
  if (committed.empty()) {
    return absl::DataLossError(absl::StrCat("checkpoint.dir: ", dir, " holds no committed checkpoint, ", text,
                                            "begin anew with --resume none"));
  }
  const checkpoint::CommittedCheckpoint& newest = committed.front();
  return absl::DataLossError(absl::StrCat("checkpoint.dir: the newest committed checkpoint in ", dir, " is of step ",
                                          newest.step, ", ", text, "go on from there with --resume ", newest.path));
}

absl::StatusOr<ResumePlan> PlanAuto(const v1::Config& config, const coordinator::CoordinatorState& state,
                                    const std::string& state_dir) {
  const std::string& dir = config.checkpoint().dir();
  ResumePlan plan;
  plan.may_fall_back = true;
  std::vector<checkpoint::CheckpointProblem> problems;
  ZF_ASSIGN_OR_RETURN(std::vector<checkpoint::CommittedCheckpoint> committed,
                      checkpoint::ListCheckpoints(dir, &problems));
  std::erase_if(committed, [&](const checkpoint::CommittedCheckpoint& found) {
    std::string why = WhatWasCommittedInstead(found, state, state_dir);
    if (why.empty()) why = WhyItIsPast(found, state, state_dir);
    if (!why.empty()) problems.push_back({found.path, std::move(why)});
    return !problems.empty() && problems.back().path == found.path;
  });
  ZF_RETURN_IF_ERROR(CheckNothingIsMissing(dir, committed, problems, state, state_dir));
  for (const checkpoint::CheckpointProblem& problem : problems) {  // storage is at fault, not the checkpoint
    if (problem.unreadable) return absl::ResourceExhaustedError(absl::StrCat("checkpoint.dir: ", problem.reason));
  }
  for (const checkpoint::CommittedCheckpoint& checkpoint : committed)
    AddCandidate(plan, checkpoint.path, checkpoint.manifest, checkpoint.digest);
  for (const checkpoint::CheckpointProblem& problem : problems) {
    plan.unreadable.push_back(problem.path);
    plan.notices.push_back(absl::StrCat("checkpoint ", problem.path, " is not used: ", problem.reason));
  }
  if (committed.empty() && !problems.empty()) {
    return absl::DataLossError(absl::StrCat(plan.notices.back(), "; no other checkpoint is left in ", dir,
                                            "; use --resume none to start over"));
  }
  if (!committed.empty()) {
    ZF_RETURN_IF_ERROR(JudgeNewest(config, committed.front().path, committed.front().manifest, plan));
  }
  return plan;
}

// The manifest without what distinguishes two commits of one state: when and by whom it was written.
v1::CheckpointManifest StateOf(v1::CheckpointManifest manifest) {
  manifest.clear_generation();
  manifest.clear_committed_unix_seconds();
  manifest.clear_writer_version();
  return manifest;
}

// The digest of the manifest in `step_dir`, if that has the same contents as `manifest`, to the bit: this happens after
// a commit whose answer was lost, or one by a coordinator that was taken for dead.
absl::StatusOr<std::string> DigestOfTheSame(const std::string& step_dir, const v1::CheckpointManifest& manifest) {
  std::string digest;
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest there, checkpoint::ReadManifest(step_dir, &digest));
  if (!google::protobuf::util::MessageDifferencer::Equals(StateOf(there), StateOf(manifest))) {
    return absl::NotFoundError("it is another");
  }
  ZF_RETURN_IF_ERROR(SyncDirectory(ParentOf(step_dir)));  // its committer may have died before this
  return digest;
}

absl::Status HeldByAnother(const std::string& dir) {
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint.dir: another run holds ", dir, "; use another directory"));
}

absl::Status CannotBeWritten(const std::string& dir, const absl::Status& why) {
  return absl::ResourceExhaustedError(absl::StrCat("checkpoint.dir: ", dir, " cannot be written: ", why.message()));
}

}  // namespace

absl::StatusOr<ResumePlan> PlanResume(const std::string& resume, const v1::Config& config,
                                      const coordinator::CoordinatorState& state, const std::string& state_dir) {
  ResumePlan plan;
  if (resume == "auto") {
    ZF_ASSIGN_OR_RETURN(plan, PlanAuto(config, state, state_dir));
  } else if (resume != "none") {
    std::string digest;
    ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, checkpoint::ReadManifest(resume, &digest));
    AddCandidate(plan, resume, manifest, digest);
    ZF_RETURN_IF_ERROR(JudgeNewest(config, resume, manifest, plan));
  }
  // A worker of an unfinished save's generation may still be alive, and about to write.
  ZF_ASSIGN_OR_RETURN(const uint64_t unfinished, checkpoint::NewestPartialGeneration(config.checkpoint().dir()));
  plan.newest_generation = std::max(plan.newest_generation, unfinished);
  return plan;
}

std::vector<std::string> ResumeNotices(const v1::Config& config, const std::string& path,
                                       const v1::CheckpointManifest& manifest) {
  std::vector<std::string> notices;
  const int64_t stored = manifest.config().model().context(), context = config.model().context(),
                step = manifest.step();
  if (stored != context) {
    const auto family = model::FindModelFamily(config.model().family());
    const bool table = family.ok() && (*family)->position_table();
    notices.push_back(absl::StrCat("checkpoint ", path, " has a context of ", stored, " and model.context is ", context,
                                   table ? absl::StrCat(": the first ", context, " rows of its position table are used")
                                         : absl::StrCat(": sequences have ", context, " tokens from here on")));
  }
  if (const absl::StatusOr<int> team = coordinator::ConfiguredTeam(config.parallel()); team.ok() && *team > 0) {
    if (manifest.team() > 0 && *team != manifest.team()) {
      const auto teams = [](int ranks) {
        return ranks == coordinator::kMostRanks ? "one team of all ranks" : absl::StrCat("teams of ", ranks, " ranks");
      };
      notices.push_back(absl::StrCat("checkpoint ", path, " was written with ", teams(manifest.team()),
                                     " and parallel.team asks for ", teams(*team),
                                     ": gradients are summed in another order from here on"));
    }
  }
  if (step == 0 || step >= config.steps()) return notices;
  const v1::Config& before = manifest.config();
  const double old_rate = optim::LearningRate(before.optimizer(), before.schedule(), before.steps(), step);
  const double new_rate = optim::LearningRate(config.optimizer(), config.schedule(), config.steps(), step);
  if (std::abs(new_rate - old_rate) > 1e-9 * old_rate) {
    notices.push_back(
        absl::StrFormat("the learning rate jumps on resuming: at step %d it is %.4g with the checkpoint's schedule "
                        "(steps: %d) and %.4g "
                        "with this configuration's (steps: %d)",
                        step, old_rate, before.steps(), new_rate, config.steps()));
  }
  return notices;
}

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(const std::string& dir, int64_t keep,
                                                                       absl::Duration patience, uint64_t generation) {
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Acquire(dir, kLockName, patience);
  if (absl::IsAlreadyExists(lock.status())) return HeldByAnother(dir);
  if (!lock.ok()) return CannotBeWritten(dir, lock.status());
  absl::StatusOr<DirectoryTraits> traits = ProbeDirectory(dir);
  if (absl::IsFailedPrecondition(traits.status())) return Annotate(traits.status(), "checkpoint.dir");
  if (!traits.ok()) return CannotBeWritten(dir, traits.status());
  absl::StatusOr<std::unique_ptr<DirectoryEpoch>> epoch = DirectoryEpoch::Claim(dir, generation, absl::Now());
  if (absl::IsAlreadyExists(epoch.status())) return HeldByAnother(dir);
  if (absl::IsDataLoss(epoch.status())) return Annotate(epoch.status(), "checkpoint.dir");
  if (!epoch.ok()) return CannotBeWritten(dir, epoch.status());
  const absl::StatusOr<std::vector<int64_t>> steps = checkpoint::ListCommittedSteps(dir);
  if (!steps.ok()) return Annotate(steps.status(), "checkpoint.dir");
  return std::unique_ptr<CheckpointStore>(new CheckpointStore(dir, std::max<int64_t>(keep, 1), *std::move(lock),
                                                              *std::move(traits), *std::move(epoch),
                                                              {steps->begin(), steps->end()}));
}

void CheckpointStore::RemoveUnfinished(uint64_t last_generation) const {
  if (!epoch_->Check().ok()) return;
  const absl::StatusOr<std::vector<std::string>> partials = checkpoint::ListPartials(dir_, last_generation);
  if (!partials.ok()) return;
  for (const std::string& partial : *partials) checkpoint::RemoveCheckpointFiles(partial).IgnoreError();
}

void CheckpointStore::Discard(const coordinator::DiscardSave& discard) const {
  if (!epoch_->Check().ok()) return;
  const std::string step_dir = checkpoint::StepDirectory(dir_, discard.step);
  checkpoint::RemoveCheckpointFiles(checkpoint::PartialDirectory(step_dir, discard.generation)).IgnoreError();
  if (discard.generation > 0) RemoveUnfinished(discard.generation - 1);
}

void CheckpointStore::RemoveLeftovers(absl::Time now) const {
  constexpr absl::Duration kSettled = absl::Minutes(1);
  if (epoch_->Check().ok()) checkpoint::RemoveLeftovers(dir_, now - kSettled);
}

absl::StatusOr<coordinator::CommittedStep> CheckpointStore::Commit(v1::CheckpointManifest manifest,
                                                                   int64_t unix_seconds) {
  manifest.set_committed_unix_seconds(unix_seconds);
  manifest.set_writer_version(GetBuildInfo().version);
  checkpoint::DescribeTokenizer(tokenizer_, &manifest);
  {
    absl::MutexLock lock(&mutex_);
    // Ranks note the best save when it begins: if it failed, the previous best save is still the best there is. A
    // recovery from a snapshot of the same step has them forget it.
    const v1::BestLoss& told = manifest.best();
    const bool is_there = told.saved_step() == manifest.step() || steps_.contains(told.saved_step());
    const bool is_better = steps_.contains(best_.saved_step()) && best_.saved_loss() < told.saved_loss();
    if (told.saved_step() > 0 && (!is_there || is_better)) {
      manifest.mutable_best()->set_saved_step(best_.saved_step());
      manifest.mutable_best()->set_saved_loss(best_.saved_loss());
    }
  }
  coordinator::CommittedStep committed{checkpoint::StepDirectory(dir_, manifest.step()), {}};
  const absl::Status status = checkpoint::CommitCheckpoint(
      committed.path, manifest, tokenizer_, [this] { return epoch_->Check(); }, &stored_bytes_);
  if (status.ok()) {
    committed.digest = checkpoint::ManifestDigest(checkpoint::ManifestText(manifest));
  } else {
    const bool taken = absl::IsFailedPrecondition(status) && epoch_->Check().ok();
    const absl::StatusOr<std::string> same = taken ? DigestOfTheSame(committed.path, manifest) : status;
    if (!same.ok()) return status;
    committed.digest = *same;
    Discard({manifest.step(), static_cast<uint64_t>(manifest.generation())});
  }
  absl::MutexLock lock(&mutex_);
  steps_.insert(manifest.step());
  best_ = manifest.best();
  committed.warnings = Prune();
  return committed;
}

absl::Status CheckpointStore::Verify(const coordinator::VerifyCheckpoint& verify) {
  return checkpoint::VerifyCheckpoint(verify.path, {verify.step, verify.digest}, &stored_bytes_);
}

void CheckpointStore::CarryTokenizer(checkpoint::TokenizerFiles files, const std::string& from) {
  tokenizer_ = std::move(files);
  const std::string directory = IsDirectory(from) ? from : ParentOf(from);
  const int64_t step = checkpoint::StepOfDirectory(directory);
  std::error_code ignored;
  const bool own = step >= 0 && std::filesystem::equivalent(directory, checkpoint::StepDirectory(dir_, step), ignored);
  tokenizer_step_ = own ? step : -1;
}

std::vector<std::string> CheckpointStore::Prune() {
  std::vector<std::string> warnings;
  const auto may_go = [best = best_.saved_step(), read = tokenizer_step_](int64_t step) {
    return step != best && step != read;
  };
  while (static_cast<int64_t>(steps_.size()) > keep_) {
    const auto newest = std::prev(steps_.end(), keep_);
    const auto found = std::find_if(steps_.begin(), newest, may_go);
    if (found == newest) break;
    const int64_t oldest = *found;
    steps_.erase(found);  // also if it cannot be removed, so that this is not retried at every commit
    absl::Status removed = epoch_->Check();
    if (removed.ok()) removed = checkpoint::RemoveCheckpoint(dir_, oldest);
    if (removed.ok()) continue;
    warnings.push_back(absl::StrCat("the old checkpoint ", checkpoint::StepDirectory(dir_, oldest),
                                    " could not be removed: ", removed.message()));
  }
  return warnings;
}

absl::Status CheckpointStore::SetAside(const std::string& step_dir) {
  ZF_ASSIGN_OR_RETURN(const PathKind kind, KindOf(step_dir));
  if (kind == PathKind::kNothing) return absl::OkStatus();  // it is out of the way already
  ZF_RETURN_IF_ERROR(epoch_->Check());
  std::string target = absl::StrCat(step_dir, ".damaged");
  for (int number = 2;; ++number) {
    ZF_ASSIGN_OR_RETURN(const PathKind taken, KindOf(target));
    if (taken == PathKind::kNothing) break;
    target = absl::StrCat(step_dir, ".damaged-", number);
  }
  ZF_RETURN_IF_ERROR(Rename(step_dir, target));
  absl::MutexLock lock(&mutex_);
  std::erase_if(steps_, [&](int64_t step) { return checkpoint::StepDirectory(dir_, step) == step_dir; });
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckpointStore::Renew() {
  ZF_ASSIGN_OR_RETURN(const bool made, lock_->Renew());
  if (made) {
    absl::MutexLock lock(&mutex_);
    steps_.clear();
    emptied_ = true;
  }
  ZF_RETURN_IF_ERROR(epoch_->Restore());
  return std::exchange(emptied_, false);
}

}  // namespace zerofleet::services
