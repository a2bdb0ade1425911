// Data, checkpoints and directories, checked before a run; see preflight.h.
#include "cli/launcher/preflight.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/report/text_progress.h"
#include "coordinator/batch_schedule.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/device/device.h"
#include "worker/model/foreign.h"
#include "worker/trainer/data_feed.h"

namespace zerofleet::cli {
namespace {

constexpr char kStateDirectory[] = ".coordinator", kLogDirectory[] = "logs", kLockName[] = "lock";

// A run that continues from step `from` commits steps after it, up to the last: none of them may exist.
absl::Status CheckNotInTheWay(const std::vector<checkpoint::CommittedCheckpoint>& committed, int64_t from) {
  if (committed.empty() || committed.front().step <= from) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("checkpoint.dir: ", committed.front().path,
                                                 " is already committed, and the run would have to overwrite it; "
                                                 "use --resume auto to continue from it, or another checkpoint.dir"));
}

absl::Status CheckUsable(const v1::Config& config, const std::string& path, const v1::CheckpointManifest& manifest) {
  if (manifest.step() > config.steps()) {
    return absl::InvalidArgumentError(absl::StrCat("steps: checkpoint ", path, " is at step ", manifest.step(),
                                                   ", beyond the configured ", config.steps(), "; raise steps"));
  }
  return checkpoint::CheckResumable(manifest, config, path);
}

// Checks that the checkpoint in init_from is complete: a run without a checkpoint of its own begins with it.
absl::Status CheckInitialWeights(const v1::Config& config) {
  if (config.init_from().empty()) return absl::OkStatus();
  const absl::StatusOr<v1::CheckpointManifest> manifest = checkpoint::ReadManifest(config.init_from());
  if (!manifest.ok()) return Annotate(manifest.status(), "init_from");
  return Annotate(checkpoint::CheckShardLengths(config.init_from(), *manifest), "init_from");
}

std::string Counted(int64_t count, const char* what) {
  return absl::StrCat(HumanCount(static_cast<double>(count)), " ", what, count == 1 ? "" : "s");
}

std::string DataLine(const v1::Config& config, const char* what, const data::Dataset& data) {
  const data::Dataset::Summary summary = data.Summarise();
  std::string line =
      absl::StrCat(what, ": ", absl::StrJoin(summary.formats, " and "), ", ", Counted(summary.tokens, "token"));
  if (summary.documents > 0) absl::StrAppend(&line, " of ", Counted(summary.documents, "document"));
  return absl::StrCat(line, ", ", Counted(data.samples(), "sample"), " of ", config.model().context());
}

// "books 70% (0.32 times), code 30% (2.1 times)"
std::string MixtureText(const v1::Config& config, const trainer::DataFeed& feed, double samples) {
  double all = 0;
  for (const int64_t weight : config.data().train_weights()) all += static_cast<double>(weight);
  std::vector<std::string> parts;
  for (int d = 0; d < config.data().train_size(); ++d) {
    const double share = static_cast<double>(config.data().train_weights(d)) / all;
    parts.push_back(absl::StrFormat("%s %.3g%% (%.3g times)", config.data().train(d), 100 * share,
                                    samples * share / static_cast<double>(feed.training()->samples_by_path()[d])));
  }
  return absl::StrJoin(parts, ", ");
}

// The line about a dataset that is in Python.
std::string ForeignDataLine(const v1::Config& config) {
  const double samples = coordinator::SequencesInAll(config.batch(), static_cast<double>(config.steps()));
  std::string line = absl::StrCat(
      "train: ", Counted(config.data().samples(), "sample"), " of ", config.model().torch(),
      absl::StrFormat("; the run reads them %.3g times", samples / static_cast<double>(config.data().samples())));
  if (config.data().validation_samples() == 0) return line;
  return absl::StrCat(line, "\nvalidation: ", Counted(config.data().validation_samples(), "sample"));
}

int Threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u)); }

absl::StatusOr<std::unique_ptr<trainer::DataFeed>> OpenShowingProgress(const v1::Config& config, std::ostream& progress,
                                                                       const Terminal& terminal,
                                                                       const std::function<bool()>& cancelled) {
  TextProgress line(progress, terminal, Clock::Real());
  data::TextOptions text;
  text.threads = Threads();
  text.progress = [&line](const std::string& path, double part) { line.Show(path, part); };
  text.cancelled = cancelled;
  return trainer::DataFeed::Open(config, std::move(text));
}

}  // namespace

absl::Status CheckDevice(const v1::Config& config) {
  ZF_ASSIGN_OR_RETURN(const std::string kind, device::ResolveDeviceKind(config.device()));
  if (config.collectives() == "nccl" && kind != "cuda") {
    return absl::FailedPreconditionError("collectives: nccl needs a GPU, and this machine has none; use ucx or auto");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckDataFiles(const v1::Config& config, std::ostream& progress, const Terminal& terminal,
                                           const std::function<bool()>& cancelled) {
  if (model::IsForeign(config.model())) return ForeignDataLine(config);
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::DataFeed> feed,
                      OpenShowingProgress(config, progress, terminal, cancelled));
  std::string lines = DataLine(config, "train", *feed->training());
  const double samples = coordinator::SequencesInAll(config.batch(), static_cast<double>(config.steps()));
  absl::StrAppend(&lines, absl::StrFormat("; the run reads it %.3g times",
                                          samples / static_cast<double>(feed->training()->samples())));
  if (!config.data().train_weights().empty()) lines = absl::StrCat(lines, "; ", MixtureText(config, *feed, samples));
  if (feed->validation() == nullptr) return lines;
  return absl::StrCat(lines, "\n", DataLine(config, "validation", *feed->validation()));
}

absl::StatusOr<int64_t> CountTrainingSamples(const v1::Config& config, std::ostream& progress, const Terminal& terminal,
                                             const std::function<bool()>& cancelled) {
  if (model::IsForeign(config.model())) {
    if (config.data().samples() > 0) return config.data().samples();
    return absl::InvalidArgumentError("epochs: need the dataset of model.torch, which is not read here; give steps");
  }
  v1::Config training = config;
  training.mutable_data()->clear_validation();
  training.mutable_data()->clear_validation_sets();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::DataFeed> feed,
                      OpenShowingProgress(training, progress, terminal, cancelled));
  return feed->training()->samples();
}

absl::Status CheckTokenIds(const v1::Config& config, std::ostream& progress, const std::function<bool()>& cancelled) {
  constexpr double kWorthALineSeconds = 1;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::DataFeed> feed, trainer::DataFeed::Open(config));
  ZF_ASSIGN_OR_RETURN(const trainer::DataFeed::IdCheck check, feed->CheckIds(Threads(), cancelled));
  if (check.bytes > 0 && check.seconds >= kWorthALineSeconds) {
    progress << absl::StrFormat("checked %s of token ids in %s (%.1f GB/s)\n", HumanBytes(check.bytes),
                                HumanSeconds(check.seconds), static_cast<double>(check.bytes) / check.seconds / 1e9);
  }
  return absl::OkStatus();
}

absl::StatusOr<ResumeCheck> CheckResume(const v1::Config& config, const std::string& resume) {
  ResumeCheck check;
  ZF_ASSIGN_OR_RETURN(const std::vector<checkpoint::CommittedCheckpoint> committed,
                      checkpoint::ListCheckpoints(config.checkpoint().dir()));
  if (resume == "none") {
    ZF_RETURN_IF_ERROR(CheckNotInTheWay(committed, -1));
    ZF_RETURN_IF_ERROR(CheckInitialWeights(config));
    return check;
  }
  if (resume == "auto") {
    if (committed.empty()) {
      ZF_RETURN_IF_ERROR(CheckInitialWeights(config));
      return check;
    }
    const checkpoint::CommittedCheckpoint& newest = committed.front();
    ZF_RETURN_IF_ERROR(CheckUsable(config, newest.path, newest.manifest));
    // A checkpoint with missing files is left to the fleet, which falls back to the one before.
    const bool whole = checkpoint::CheckShardLengths(newest.path, newest.manifest).ok();
    if (newest.step == config.steps() && whole) check.finished = newest.path;
    return check;
  }
  if (!IsDirectory(resume)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: must be auto, none or a step directory of a checkpoint, got ", resume));
  }
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, checkpoint::ReadManifest(resume));
  ZF_RETURN_IF_ERROR(CheckNotInTheWay(committed, manifest.step()));
  ZF_RETURN_IF_ERROR(CheckUsable(config, resume, manifest));
  return check;
}

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Hold(const std::string& dir) {
  const auto cannot = [&](const std::string& why) {
    return absl::ResourceExhaustedError(absl::StrCat("checkpoint.dir: ", dir, " cannot be written: ", why));
  };
  for (const char* name : {kStateDirectory, kLogDirectory}) {
    const absl::Status created = CreateDirectories(JoinPath(dir, name));
    if (!created.ok()) return cannot(std::string(created.message()));
  }
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock =
      DirectoryLock::Acquire(JoinPath(dir, kStateDirectory), kLockName);
  if (absl::IsAlreadyExists(lock.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint.dir: another run holds ", dir, "; use another directory"));
  }
  if (!lock.ok()) return cannot(std::string(lock.status().message()));
  // Permission alone does not guarantee that a step directory can be made: a file system may be mounted read-only.
  if (access(dir.c_str(), W_OK) != 0) return cannot(std::strerror(errno));
  return std::unique_ptr<RunDirectory>(new RunDirectory(dir, *std::move(lock)));
}

std::string RunDirectory::state_dir() const { return JoinPath(dir_, kStateDirectory); }
std::string RunDirectory::config_path() const { return JoinPath(state_dir(), "config.json"); }
std::string RunDirectory::log_path(const std::string& process) const {
  return JoinPath(JoinPath(dir_, kLogDirectory), process + ".log");
}
std::string RunDirectory::trace_path(int worker) const {
  return JoinPath(JoinPath(dir_, kLogDirectory), absl::StrCat("worker-", worker, ".trace.json"));
}

}  // namespace zerofleet::cli
