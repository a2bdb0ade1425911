// Interposed system calls; see file_calls_testing.h.
#include "base/file_calls_testing.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"

namespace zerofleet {
namespace {

struct State {
  std::string directory;
  absl::Mutex mutex;
  std::vector<std::string> calls ABSL_GUARDED_BY(mutex);
  std::map<std::string, int> failures ABSL_GUARDED_BY(mutex), stat_failures ABSL_GUARDED_BY(mutex),
      rename_failures ABSL_GUARDED_BY(mutex), lost_renames ABSL_GUARDED_BY(mutex);
  bool no_rename_flags ABSL_GUARDED_BY(mutex) = false;
  bool ignores_rename_flags ABSL_GUARDED_BY(mutex) = false, keeps_renamed ABSL_GUARDED_BY(mutex) = false,
                            ignores_exclusive ABSL_GUARDED_BY(mutex) = false;
  int interrupted_allocations ABSL_GUARDED_BY(mutex) = 0;
  int creation_failure ABSL_GUARDED_BY(mutex) = 0, every_lost_rename ABSL_GUARDED_BY(mutex) = 0;
  std::optional<int> flock_answer ABSL_GUARDED_BY(mutex);
  std::optional<long> file_system ABSL_GUARDED_BY(mutex);
  enum class Held { kFsync, kWrite, kUncache } holds ABSL_GUARDED_BY(mutex) = Held::kFsync;
  std::optional<std::string> hold ABSL_GUARDED_BY(mutex);
  size_t hold_bytes ABSL_GUARDED_BY(mutex) = 0;  // a write of at least this many is held
  bool held ABSL_GUARDED_BY(mutex) = false;
  bool released ABSL_GUARDED_BY(mutex) = false;
};

absl::Mutex active_mutex(absl::kConstInit);
std::shared_ptr<State> active ABSL_GUARDED_BY(active_mutex);  // shared, since a call may outlive its test

std::shared_ptr<State> Active() {
  absl::MutexLock lock(&active_mutex);
  return active;
}

// The path relative to the directory, if it lies below it.
std::optional<std::string> Relative(const State& state, const std::string& path) {
  if (path == state.directory) return ".";
  if (!absl::StartsWith(path, absl::StrCat(state.directory, "/"))) return std::nullopt;
  return path.substr(state.directory.size() + 1);
}

std::optional<std::string> NameOf(const State& state, int descriptor) {
  char path[4096];
  const std::string link = absl::StrCat("/proc/self/fd/", descriptor);
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  return length < 0 ? std::nullopt : Relative(state, std::string(path, static_cast<size_t>(length)));
}

void Record(State& state, const std::string& call) {
  absl::MutexLock lock(&state.mutex);
  if (!absl::StartsWith(call, "write ") || state.calls.empty() || state.calls.back() != call)
    state.calls.push_back(call);
}

// Returns once the call may go on.
void Hold(State& state, State::Held call, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  if (!state.hold || state.holds != call || !absl::EndsWith(name, *state.hold)) return;
  state.hold.reset();
  state.held = true;
  state.mutex.Await(absl::Condition(&state.released));
}

void BeforeWrite(State& state, const std::string& name, size_t bytes) {
  absl::MutexLock lock(&state.mutex);
  if (bytes >= state.hold_bytes) Hold(state, State::Held::kWrite, name);
}

// The error that this fsync must fail with, or 0, once it may go on.
int BeforeFsync(State& state, const std::string& name) {
  absl::MutexLock lock(&state.mutex);
  Hold(state, State::Held::kFsync, name);
  const auto failure = state.failures.find(name);
  return failure == state.failures.end() ? 0 : failure->second;
}

// The error that stat of this path must fail with, or 0.
int ErrorOfStat(const char* path) {
  const auto state = Active();
  const std::optional<std::string> name = state == nullptr ? std::nullopt : Relative(*state, path);
  if (!name) return 0;
  absl::MutexLock lock(&state->mutex);
  const auto failure = state->stat_failures.find(*name);
  return failure == state->stat_failures.end() ? 0 : failure->second;
}

template <typename Call>
int StatBy(Call next, const char* path) {
  const int error = ErrorOfStat(path);
  if (error == 0) return next();
  errno = error;
  return -1;
}

int BeforeRename(State& state, const std::string& to) {
  absl::MutexLock lock(&state.mutex);
  const auto failure = state.rename_failures.find(to);
  return failure == state.rename_failures.end() ? 0 : failure->second;
}

// The error to report although the rename was carried out, or 0.
int AfterRename(State& state, const std::string& to) {
  absl::MutexLock lock(&state.mutex);
  const auto lost = state.lost_renames.find(to);
  return lost == state.lost_renames.end() ? state.every_lost_rename : lost->second;
}

bool RefusesRenameFlags(State& state) {
  absl::MutexLock lock(&state.mutex);
  return state.no_rename_flags;
}

bool IgnoresRenameFlags(State& state) {
  absl::MutexLock lock(&state.mutex);
  return state.ignores_rename_flags;
}

bool KeepsRenamed(State& state) {
  absl::MutexLock lock(&state.mutex);
  return state.keeps_renamed;
}

// The flags to open with; nothing, with errno set, if the call is to fail.
std::optional<int> FlagsOfOpen(State& state, int flags) {
  absl::MutexLock lock(&state.mutex);
  if ((flags & O_CREAT) != 0 && state.creation_failure != 0) {
    errno = state.creation_failure;
    return std::nullopt;
  }
  return state.ignores_exclusive ? flags & ~O_EXCL : flags;
}

bool InterruptsAllocation(State& state) {
  absl::MutexLock lock(&state.mutex);
  return state.interrupted_allocations > 0 && state.interrupted_allocations-- > 0;
}

std::optional<int> AnswerOfFlock(State& state) {
  absl::MutexLock lock(&state.mutex);
  return state.flock_answer;
}

std::optional<long> FileSystemOf(State& state) {
  absl::MutexLock lock(&state.mutex);
  return state.file_system;
}

void BeforeUncache(State& state, const std::string& name) {
  absl::MutexLock lock(&state.mutex);
  Hold(state, State::Held::kUncache, name);
}

// Calls `next` unless this rename is to fail.
template <typename Call>
int RenameBy(Call next, const char* from, const char* to) {
  const auto state = Active();
  if (state == nullptr) return next();
  const std::optional<std::string> source = Relative(*state, from), target = Relative(*state, to);
  if (!source || !target) return next();
  Record(*state, "rename " + *source + " " + *target);
  if (KeepsRenamed(*state)) return 0;
  int error = BeforeRename(*state, *target);
  if (error == 0) {
    const int renamed = next();
    error = renamed == 0 ? AfterRename(*state, *target) : errno;
  }
  errno = error;
  return error == 0 ? 0 : -1;
}

void HoldNext(State::Held call, const std::string& suffix, size_t bytes) {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->holds = call;
  state->hold = suffix;
  state->hold_bytes = bytes;
  state->held = state->released = false;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

FileCallLog::FileCallLog(const std::string& directory) {
  auto state = std::make_shared<State>();
  state->directory = std::filesystem::canonical(directory);
  absl::MutexLock lock(&active_mutex);
  ZF_CHECK(active == nullptr);
  active = std::move(state);
}

FileCallLog::~FileCallLog() {
  ReleaseFsync();
  absl::MutexLock lock(&active_mutex);
  active = nullptr;
}

std::vector<std::string> FileCallLog::calls() const {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  return state->calls;
}

void FileCallLog::FailFsync(const std::string& name, int error) {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->failures[name] = error;
}

void FileCallLog::FailRename(const std::string& name, int error) {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->rename_failures[name] = error;
}

void FileCallLog::LoseRename(const std::string& name, int error) {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->lost_renames[name] = error;
}

void FileCallLog::RefuseRenameFlags() {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->no_rename_flags = true;
}

namespace {

// Thread-safety analysis would look for the mutex that `bend` requires in `bend` itself.
template <typename Bend>
void BendActive(Bend bend) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const std::shared_ptr<State> active_state = Active();
  State& state = *active_state;
  absl::MutexLock lock(&state.mutex);
  bend(state);
}

}  // namespace

void FileCallLog::KeepRenamed() {
  BendActive([](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.keeps_renamed = true; });
}
void FileCallLog::IgnoreRenameFlags() {
  BendActive([](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.ignores_rename_flags = true; });
}
void FileCallLog::IgnoreExclusive() {
  BendActive([](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.ignores_exclusive = true; });
}
void FileCallLog::FailStat(const std::string& name, int error) {
  BendActive([&](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.stat_failures[name] = error; });
}
void FileCallLog::LoseEveryRename(int error) {
  BendActive([&](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.every_lost_rename = error; });
}
void FileCallLog::BendFlock(int error) {
  BendActive([&](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.flock_answer = error; });
}
void FileCallLog::SetFileSystem(long type) {
  BendActive([&](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.file_system = type; });
}
void FileCallLog::FailCreation(int error) {
  BendActive([&](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.creation_failure = error; });
}
void FileCallLog::InterruptAllocation(int times) {
  BendActive([&](State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { state.interrupted_allocations = times; });
}

void FileCallLog::WaitFor(const std::string& call) {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  const auto recorded = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
    return std::find(state->calls.begin(), state->calls.end(), call) != state->calls.end();
  };
  state->mutex.Await(absl::Condition(&recorded));
}

void FileCallLog::HoldFsync(const std::string& suffix) { HoldNext(State::Held::kFsync, suffix, 0); }

void FileCallLog::HoldWrite(const std::string& suffix, size_t bytes) { HoldNext(State::Held::kWrite, suffix, bytes); }

void FileCallLog::HoldUncache(const std::string& suffix) { HoldNext(State::Held::kUncache, suffix, 0); }

void FileCallLog::WaitUntilHeld() {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->mutex.Await(absl::Condition(&state->held));
}

void FileCallLog::ReleaseFsync() {
  const std::shared_ptr<State> state = Active();
  absl::MutexLock lock(&state->mutex);
  state->released = true;
}

}  // namespace zerofleet

// The dynamic linker finds these before libc's.
extern "C" {

ssize_t write(int descriptor, const void* data, size_t size) {
  static const auto next = zerofleet::Next<ssize_t (*)(int, const void*, size_t)>("write");
  if (const auto state = zerofleet::Active(); state != nullptr) {
    const std::optional<std::string> name = zerofleet::NameOf(*state, descriptor);
    if (name) {
      zerofleet::Record(*state, "write " + *name);
      zerofleet::BeforeWrite(*state, *name, size);
    }
  }
  return next(descriptor, data, size);
}

int fsync(int descriptor) {
  static const auto next = zerofleet::Next<int (*)(int)>("fsync");
  if (const auto state = zerofleet::Active(); state != nullptr) {
    if (const std::optional<std::string> name = zerofleet::NameOf(*state, descriptor); name) {
      zerofleet::Record(*state, "fsync " + *name);
      if (const int error = zerofleet::BeforeFsync(*state, *name); error != 0) {
        errno = error;
        return -1;
      }
    }
  }
  return next(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = zerofleet::Next<int (*)(const char*, const char*)>("rename");
  return zerofleet::RenameBy([&] { return next(from, to); }, from, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  static const auto next = zerofleet::Next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  if (const auto state = zerofleet::Active(); state != nullptr && zerofleet::RefusesRenameFlags(*state)) {
    errno = access(to, F_OK) == 0 ? EEXIST : EINVAL;
    return -1;
  }
  if (const auto state = zerofleet::Active(); state != nullptr && zerofleet::IgnoresRenameFlags(*state)) flags = 0;
  return zerofleet::RenameBy([&] { return next(from_directory, from, to_directory, to, flags); }, from, to);
}

int posix_fadvise(int descriptor, off_t offset, off_t length, int advice) noexcept {
  static const auto next = zerofleet::Next<int (*)(int, off_t, off_t, int)>("posix_fadvise");
  if (const auto state = zerofleet::Active(); state != nullptr && advice == POSIX_FADV_DONTNEED) {
    if (const std::optional<std::string> name = zerofleet::NameOf(*state, descriptor); name) {
      zerofleet::Record(*state, "uncache " + *name);
      zerofleet::BeforeUncache(*state, *name);
    }
  }
  return next(descriptor, offset, length, advice);
}

int posix_fallocate(int descriptor, off_t offset, off_t length) {
  static const auto next = zerofleet::Next<int (*)(int, off_t, off_t)>("posix_fallocate");
  const auto state = zerofleet::Active();
  if (state != nullptr && zerofleet::NameOf(*state, descriptor) && zerofleet::InterruptsAllocation(*state))
    return EINTR;
  return next(descriptor, offset, length);
}

int open(const char* path, int flags, ...) {
  static const auto next = zerofleet::Next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  // Calls without O_CREAT pass straight through: Active() takes a mutex, and a thread that waits for one for the first
  // time opens the file with the CPU's frequency.
  const auto state = (flags & O_CREAT) != 0 ? zerofleet::Active() : nullptr;
  if (state != nullptr && zerofleet::Relative(*state, path)) {
    const std::optional<int> bent = zerofleet::FlagsOfOpen(*state, flags);
    if (!bent) return -1;
    flags = *bent;
  }
  return next(path, flags, mode);
}

int stat(const char* path, struct stat* info) noexcept {
  static const auto next = zerofleet::Next<int (*)(const char*, struct stat*)>("stat");
  return zerofleet::StatBy([&] { return next(path, info); }, path);
}

int lstat(const char* path, struct stat* info) noexcept {
  static const auto next = zerofleet::Next<int (*)(const char*, struct stat*)>("lstat");
  return zerofleet::StatBy([&] { return next(path, info); }, path);
}

int flock(int descriptor, int operation) noexcept {
  static const auto next = zerofleet::Next<int (*)(int, int)>("flock");
  const auto state = zerofleet::Active();
  const std::optional<int> answer = state == nullptr ? std::nullopt : zerofleet::AnswerOfFlock(*state);
  if (!answer || !zerofleet::NameOf(*state, descriptor)) return next(descriptor, operation);
  errno = *answer;
  return *answer == 0 ? 0 : -1;
}

int statfs(const char* path, struct statfs* info) noexcept {
  static const auto next = zerofleet::Next<int (*)(const char*, struct statfs*)>("statfs");
  const int result = next(path, info);
  const auto state = zerofleet::Active();
  if (state != nullptr && zerofleet::Relative(*state, path)) {
    info->f_type = zerofleet::FileSystemOf(*state).value_or(info->f_type);
  }
  return result;
}
}
