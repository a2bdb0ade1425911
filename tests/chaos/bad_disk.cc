// A disk that fails, for whole processes. Preloaded (LD_PRELOAD), it intercepts the file calls of the C library that
// the program and libstdc++'s filesystem make, and applies the faults that the chaos runner requests. Shards and
// manifests are read with pread, so mmap is left alone.
//
// The request lies in a file that all processes map, named by ZEROFLEET_BAD_DISK; disk.py writes it. Only calls on
// paths with `where` and without `but` in them are affected, and only those of one process if `pid` is set. The seed
// and the calls' order decide which of them are hit.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace {

// kTorn: half of the call is done, then the process ends. kFlip: one bit of what was read is flipped. kLost: the call
// is done, but returns an error. kHung: the call does not return before another fault, or none, is requested. kFeigned:
// the call succeeds without doing anything; an open is done without O_EXCL.
enum class Fault : uint32_t { kNone, kError, kSlow, kShort, kTorn, kFlip, kLost, kHung, kFeigned };

// kRead includes listing a directory; kUnlink includes removing one.
enum Call : uint32_t {
  kWrite = 1,
  kSync = 2,
  kRename = 4,
  kRead = 8,
  kStat = 16,
  kOpen = 32,
  kUnlink = 64,
  kLock = 128,
  kMake = 256
};

// The request, in the layout in which disk.py packs it.
struct Control {
  std::atomic<uint32_t> fault;
  uint32_t calls;   // a set of Call
  uint32_t error;   // kError, kLost: errno
  uint32_t millis;  // kSlow
  uint32_t chance;  // out of 65,536
  uint32_t seed;
  uint32_t pid;                     // 0: every process
  std::atomic<uint32_t> seen, hit;  // calls that could have been hit, and those that were
  std::array<char, 188> where;      // ends with a 0
  std::array<char, 32> but;         // ends with a 0; empty: no path is excluded
};
static_assert(sizeof(Control) == 256);

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

Control* OpenControl() {
  const char* path = std::getenv("ZEROFLEET_BAD_DISK");
  const int descriptor = path == nullptr ? -1 : Next<int(const char*, int, ...)>("open")(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* data = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return data == MAP_FAILED ? nullptr : static_cast<Control*>(data);
}

Control* TheControl() {
  static Control* const control = OpenControl();
  return control;
}

// Mixes the bits of its argument (the finalizer of MurmurHash3).
uint32_t Mixed(uint32_t bits) {
  bits = (bits ^ bits >> 16) * 0x85ebca6b;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35;
  return bits ^ bits >> 16;
}

bool IsThere(const Control& control, const char* path) {
  const auto has = [&](const char* text) { return std::string_view(path).find(text) != std::string_view::npos; };
  return has(control.where.data()) && !(control.but[0] != 0 && has(control.but.data()));
}

// The path under which a descriptor was opened; false if it has none.
bool PathOf(int descriptor, std::array<char, 8192>& path) {
  char link[32];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t bytes = readlink(link, path.data(), path.size() / 2);
  path[bytes < 0 ? 0 : static_cast<size_t>(bytes)] = 0;
  return bytes > 0;
}

bool IsThere(const Control& control, int descriptor) {
  std::array<char, 8192> path;
  return PathOf(descriptor, path) && IsThere(control, path.data());
}

// A path within an open directory, as remove_all uses when it removes a tree.
struct At {
  int directory;
  const char* path;
};

bool IsThere(const Control& control, At at) {
  if (at.directory == AT_FDCWD || at.path[0] == '/') return IsThere(control, at.path);
  std::array<char, 8192> path;
  if (!PathOf(at.directory, path)) return false;
  const size_t length = std::strlen(path.data());
  std::snprintf(path.data() + length, path.size() - length, "/%s", at.path);
  return IsThere(control, path.data());
}

// Decides the fault of this call. One torn call is enough, since the process ends.
template <class Place>
Fault Drawn(Call call, Place place) {
  const int before = errno;
  Control* const control = TheControl();
  if (control == nullptr) return Fault::kNone;
  uint32_t fault = control->fault.load(std::memory_order_acquire);
  const bool others = control->pid != 0 && control->pid != static_cast<uint32_t>(getpid());
  if (fault == 0 || others || (control->calls & call) == 0 || !IsThere(*control, place)) {
    errno = before;
    return Fault::kNone;
  }
  if (Mixed(control->seed ^ Mixed(control->seen.fetch_add(1))) % 65536 >= control->chance) return Fault::kNone;
  if (static_cast<Fault>(fault) == Fault::kTorn && !control->fault.compare_exchange_strong(fault, 0))
    return Fault::kNone;
  control->hit.fetch_add(1);
  return static_cast<Fault>(fault);
}

void HangOn() {
  while (static_cast<Fault>(TheControl()->fault.load(std::memory_order_acquire)) == Fault::kHung) usleep(10'000);
}

template <class Result>
Result Failure() {
  errno = static_cast<int>(TheControl()->error);
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return static_cast<Result>(-1);
  }
}

// Does the call through `next`, with this fault.
template <class Next>
auto Bent(Fault fault, Next next) -> decltype(next()) {
  if (fault == Fault::kSlow) usleep(1000 * TheControl()->millis);
  if (fault == Fault::kHung) HangOn();
  if (fault == Fault::kTorn) kill(getpid(), SIGKILL);
  if (fault == Fault::kLost) next();
  if (fault == Fault::kLost || fault == Fault::kError) return Failure<decltype(next())>();
  return next();
}

// Like Bent, for a call that returns 0, which can be feigned.
template <class Next>
int BentOrFeigned(Fault fault, Next next) {
  return fault == Fault::kFeigned ? 0 : Bent(fault, next);
}

template <class Open>
int OpenOn(At at, int flags, Open open) {
  const Fault fault = Drawn(kOpen, at);
  return Bent(fault, [&] { return open(fault == Fault::kFeigned ? flags & ~O_EXCL : flags); });
}

template <class Write>
ssize_t WriteOn(int descriptor, size_t bytes, Write write) {
  const Fault fault = Drawn(kWrite, descriptor);
  if (fault == Fault::kShort) return write((bytes + 1) / 2);
  if (fault == Fault::kTorn) write(bytes / 2);
  return Bent(fault, [&] { return write(bytes); });
}

template <class Read>
ssize_t ReadOn(int descriptor, void* data, size_t bytes, Read read) {
  const Fault fault = Drawn(kRead, descriptor);
  const ssize_t got = Bent(fault, [&] { return read(fault == Fault::kShort ? (bytes + 1) / 2 : bytes); });
  if (fault == Fault::kFlip && got > 0) {
    const uint32_t draw = Mixed(TheControl()->seed + TheControl()->hit);
    static_cast<uint8_t*>(data)[draw % static_cast<size_t>(got)] ^= static_cast<uint8_t>(1 << (draw >> 29));
  }
  return got;
}

mode_t ModeOf(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static auto* const next = Next<decltype(write)>("write");
  return WriteOn(descriptor, bytes, [&](size_t count) { return next(descriptor, data, count); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static auto* const next = Next<decltype(pwrite)>("pwrite");
  return WriteOn(descriptor, bytes, [&](size_t count) { return next(descriptor, data, count, offset); });
}

ssize_t read(int descriptor, void* data, size_t bytes) {
  static auto* const next = Next<decltype(read)>("read");
  return ReadOn(descriptor, data, bytes, [&](size_t count) { return next(descriptor, data, count); });
}

ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) {
  static auto* const next = Next<decltype(pread)>("pread");
  return ReadOn(descriptor, data, bytes, [&](size_t count) { return next(descriptor, data, count, offset); });
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  static auto* const next = Next<int(int, off_t)>("ftruncate");
  return Bent(Drawn(kWrite, descriptor), [&] { return next(descriptor, bytes); });
}

int truncate(const char* path, off_t bytes) noexcept {
  static auto* const next = Next<int(const char*, off_t)>("truncate");
  return Bent(Drawn(kWrite, path), [&] { return next(path, bytes); });
}

int fsync(int descriptor) {
  static auto* const next = Next<decltype(fsync)>("fsync");
  return Bent(Drawn(kSync, descriptor), [&] { return next(descriptor); });
}

int flock(int descriptor, int operation) noexcept {
  static auto* const next = Next<int(int, int)>("flock");
  return BentOrFeigned(Drawn(kLock, descriptor), [&] { return next(descriptor, operation); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const next = Next<int(const char*, const char*)>("rename");
  return BentOrFeigned(Drawn(kRename, to), [&] { return next(from, to); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  static auto* const next = Next<int(int, const char*, int, const char*)>("renameat");
  return BentOrFeigned(Drawn(kRename, At{to_directory, to}),
                       [&] { return next(from_directory, from, to_directory, to); });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  static auto* const next = Next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return BentOrFeigned(Drawn(kRename, At{to_directory, to}),
                       [&] { return next(from_directory, from, to_directory, to, flags); });
}

int unlink(const char* path) noexcept {
  static auto* const next = Next<int(const char*)>("unlink");
  return Bent(Drawn(kUnlink, path), [&] { return next(path); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  static auto* const next = Next<int(int, const char*, int)>("unlinkat");
  return Bent(Drawn(kUnlink, At{directory, path}), [&] { return next(directory, path, flags); });
}

int rmdir(const char* path) noexcept {
  static auto* const next = Next<int(const char*)>("rmdir");
  return Bent(Drawn(kUnlink, path), [&] { return next(path); });
}

int remove(const char* path) noexcept {
  static auto* const next = Next<int(const char*)>("remove");
  return Bent(Drawn(kUnlink, path), [&] { return next(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const next = Next<int(const char*, mode_t)>("mkdir");
  return Bent(Drawn(kMake, path), [&] { return next(path, mode); });
}

int stat(const char* path, struct stat* info) noexcept {
  static auto* const next = Next<int(const char*, struct stat*)>("stat");
  return Bent(Drawn(kStat, path), [&] { return next(path, info); });
}

int lstat(const char* path, struct stat* info) noexcept {
  static auto* const next = Next<int(const char*, struct stat*)>("lstat");
  return Bent(Drawn(kStat, path), [&] { return next(path, info); });
}

int fstat(int descriptor, struct stat* info) noexcept {
  static auto* const next = Next<int(int, struct stat*)>("fstat");
  return Bent(Drawn(kStat, descriptor), [&] { return next(descriptor, info); });
}

int fstat64(int descriptor, struct stat64* info) noexcept {
  static auto* const next = Next<int(int, struct stat64*)>("fstat64");
  return Bent(Drawn(kStat, descriptor), [&] { return next(descriptor, info); });
}

int fstatat(int directory, const char* path, struct stat* info, int flags) noexcept {
  static auto* const next = Next<int(int, const char*, struct stat*, int)>("fstatat");
  return Bent(Drawn(kStat, At{directory, path}), [&] { return next(directory, path, info, flags); });
}

int access(const char* path, int mode) noexcept {
  static auto* const next = Next<int(const char*, int)>("access");
  return Bent(Drawn(kStat, path), [&] { return next(path, mode); });
}

int open(const char* path, int flags, ...) {
  static auto* const next = Next<int(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  return OpenOn({AT_FDCWD, path}, flags, [&](int bent) { return next(path, bent, mode); });
}

int openat(int directory, const char* path, int flags, ...) {
  static auto* const next = Next<int(int, const char*, int, ...)>("openat");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  return OpenOn({directory, path}, flags, [&](int bent) { return next(directory, path, bent, mode); });
}

FILE* fopen(const char* path, const char* mode) {
  static auto* const next = Next<FILE*(const char*, const char*)>("fopen");
  return Bent(Drawn(kOpen, path), [&] { return next(path, mode); });
}

FILE* fopen64(const char* path, const char* mode) {
  static auto* const next = Next<FILE*(const char*, const char*)>("fopen64");
  return Bent(Drawn(kOpen, path), [&] { return next(path, mode); });
}

// std::filesystem lists directories that it has opened with openat.
struct dirent* readdir(DIR* directory) {
  static auto* const next = Next<struct dirent*(DIR*)>("readdir");
  return Bent(Drawn(kRead, dirfd(directory)), [&] { return next(directory); });
}
}
