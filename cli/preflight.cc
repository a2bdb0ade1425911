// Data, checkpoints and directories, looked at before a run; see preflight.h.
#include "cli/preflight.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/data/dataset.h"
#include "worker/device/device.h"
#include "worker/model/spec.h"

namespace zerofleet {
namespace {

constexpr char kStateDirectory[] = ".coordinator", kLogDirectory[] = "logs", kLockName[] = "lock";

template <typename Shape>
std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// A run that goes on from step `from` commits steps after it, up to the last: none of them may exist.
absl::Status CheckNotInTheWay(const v1::Config& config, const std::vector<CommittedCheckpoint>& committed,
                              int64_t from) {
  if (committed.empty() || committed.front().step <= from) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("checkpoint.dir: ", committed.front().path,
                                                 " is already committed and would be in the way; "
                                                 "use --resume auto to go on from it, or another checkpoint.dir"));
}

absl::Status CheckUsable(const v1::Config& config, const std::string& path, const v1::CheckpointManifest& manifest) {
  if (manifest.step() > config.steps()) {
    return absl::InvalidArgumentError(absl::StrCat("steps: checkpoint ", path, " is at step ", manifest.step(),
                                                   ", beyond the configured ", config.steps(), "; raise steps"));
  }
  return CheckSameTensors(manifest, config.model(), path);
}

}  // namespace

absl::Status CheckDevice(const v1::Config& config) {
  ZF_ASSIGN_OR_RETURN(const std::string kind, ResolveDeviceKind(config.device()));
  if (config.collectives() == "nccl" && kind != "cuda") {
    return absl::FailedPreconditionError("collectives: nccl needs a GPU, and this machine shows none; use ucx or auto");
  }
  return absl::OkStatus();
}

absl::Status CheckDataFiles(const v1::Config& config) {
  const int64_t context = config.model().context(), vocab = config.model().vocab();
  for (const auto* paths : {&config.data().train(), &config.data().validation()}) {
    if (paths->empty()) continue;
    const std::vector<std::string> list(paths->begin(), paths->end());
    ZF_RETURN_IF_ERROR(Dataset::Open(config.data(), list, context, vocab));
  }
  return absl::OkStatus();
}

absl::Status CheckSameTensors(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                              const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Create(model));
  const size_t stored = manifest.tensors_size(), wanted = spec.tensors().size();
  for (size_t i = 0; i < std::min(stored, wanted); ++i) {
    const v1::TensorEntry& entry = manifest.tensors(static_cast<int>(i));
    const TensorSpec& tensor = spec.tensors()[i];
    if (entry.name() == tensor.name && ShapeText(entry.shape()) == ShapeText(tensor.shape)) continue;
    return absl::DataLossError(absl::StrCat("checkpoint ", path, " is of another model: its tensor ", entry.name(), " ",
                                            ShapeText(entry.shape()), " stands where the configured model has ",
                                            tensor.name, " ", ShapeText(tensor.shape)));
  }
  if (stored == wanted) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoint ", path, " is of another model: it has ", stored,
                                          " tensors, the configured model ", wanted));
}

absl::Status CheckResume(const v1::Config& config, const std::string& resume) {
  ZF_ASSIGN_OR_RETURN(const std::vector<CommittedCheckpoint> committed, ListCheckpoints(config.checkpoint().dir()));
  if (resume == "none") return CheckNotInTheWay(config, committed, -1);
  if (resume == "auto") {
    return committed.empty() ? absl::OkStatus()
                             : CheckUsable(config, committed.front().path, committed.front().manifest);
  }
  if (!IsDirectory(resume)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: wants auto, none or a checkpoint's step directory, not ", resume));
  }
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(resume));
  ZF_RETURN_IF_ERROR(CheckNotInTheWay(config, committed, manifest.step()));
  return CheckUsable(config, resume, manifest);
}

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Hold(const std::string& dir) {
  const auto cannot = [&](const std::string& why) {
    return absl::ResourceExhaustedError(absl::StrCat("checkpoint.dir: ", dir, " cannot be written: ", why));
  };
  for (const char* name : {kStateDirectory, kLogDirectory}) {
    const absl::Status created = CreateDirectories(JoinPath(dir, name));
    if (!created.ok()) return cannot(std::string(created.message()));
  }
  const std::string lock_path = JoinPath(JoinPath(dir, kStateDirectory), kLockName);
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return cannot(std::strerror(errno));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint.dir: another run holds ", dir, "; use another directory"));
  }
  // Permission alone does not say that a step directory can be made: a file system may be mounted read-only.
  if (access(dir.c_str(), W_OK) != 0) {
    const std::string why = std::strerror(errno);
    close(lock);
    return cannot(why);
  }
  return std::unique_ptr<RunDirectory>(new RunDirectory(dir, lock));
}

RunDirectory::~RunDirectory() { close(lock_); }

std::string RunDirectory::state_dir() const { return JoinPath(dir_, kStateDirectory); }
std::string RunDirectory::config_path() const { return JoinPath(state_dir(), "config.json"); }
std::string RunDirectory::log_path(const std::string& process) const {
  return JoinPath(JoinPath(dir_, kLogDirectory), process + ".log");
}

}  // namespace zerofleet
