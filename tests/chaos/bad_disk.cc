// A disk that fails, for whole processes: preloaded (LD_PRELOAD), it stands before write, pwrite, fsync and rename of
// the C library and does to some of them what the chaos runner asks for.
//
// What to do lies in a file that all processes map, named by ZEROFLEET_BAD_DISK; disk.py writes it. Only calls on paths
// with `where` and without `but` in them are touched. Which of them are hit is a function of the seed and of the calls'
// order.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

enum class Fault : uint32_t { kNone, kError, kSlow, kShort, kTorn };

enum Call : uint32_t { kWrite = 1, kSync = 2, kRename = 4 };

// As disk.py packs it.
struct Control {
  std::atomic<uint32_t> fault;
  uint32_t calls;   // a set of Call
  uint32_t error;   // kError: errno
  uint32_t millis;  // kSlow
  uint32_t chance;  // of 65,536
  uint32_t seed;
  std::atomic<uint32_t> seen, hit;  // calls that could have been hit, and those that were
  std::array<char, 192> where;      // ends with a 0
  std::array<char, 32> but;         // ends with a 0; empty: nothing is left out
};
static_assert(sizeof(Control) == 256);

using RenameCall = int (*)(const char*, const char*);
using RenameAtCall = int (*)(int, const char*, int, const char*, unsigned);
using SyncCall = int (*)(int);
using WriteCall = ssize_t (*)(int, const void*, size_t);
using PwriteCall = ssize_t (*)(int, const void*, size_t, off_t);

template <class Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

Control* OpenControl() {
  const char* path = std::getenv("ZEROFLEET_BAD_DISK");
  const int descriptor = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
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

bool IsThere(const Control& control, int descriptor) {
  char link[32], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t bytes = readlink(link, path, sizeof(path) - 1);
  if (bytes <= 0) return false;
  path[bytes] = 0;
  return IsThere(control, path);
}

// What happens to this call. One torn write is enough: the process is gone.
template <class Place>
Fault Drawn(Call call, Place place) {
  const int before = errno;
  Control* const control = TheControl();
  if (control == nullptr) return Fault::kNone;
  uint32_t fault = control->fault.load(std::memory_order_acquire);
  if (fault == 0 || (control->calls & call) == 0 || !IsThere(*control, place)) {
    errno = before;
    return Fault::kNone;
  }
  if (Mixed(control->seed ^ Mixed(control->seen.fetch_add(1))) % 65536 >= control->chance) return Fault::kNone;
  if (static_cast<Fault>(fault) == Fault::kTorn && !control->fault.compare_exchange_strong(fault, 0))
    return Fault::kNone;
  control->hit.fetch_add(1);
  return static_cast<Fault>(fault);
}

// Whether the call has failed; it may have been slow.
bool HasFailed(Fault fault) {
  if (fault == Fault::kSlow) usleep(1000 * TheControl()->millis);
  if (fault == Fault::kTorn) kill(getpid(), SIGKILL);
  if (fault == Fault::kError) errno = static_cast<int>(TheControl()->error);
  return fault == Fault::kError;
}

template <class Write>
ssize_t WriteOn(int descriptor, size_t bytes, Write write) {
  const Fault fault = Drawn(kWrite, descriptor);
  if (fault == Fault::kShort) return write((bytes + 1) / 2);
  if (fault == Fault::kTorn) write(bytes / 2);
  return HasFailed(fault) ? -1 : write(bytes);
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static const auto next = Next<WriteCall>("write");
  return WriteOn(descriptor, bytes, [&](size_t count) { return next(descriptor, data, count); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static const auto next = Next<PwriteCall>("pwrite");
  return WriteOn(descriptor, bytes, [&](size_t count) { return next(descriptor, data, count, offset); });
}

int fsync(int descriptor) {
  static const auto next = Next<SyncCall>("fsync");
  return HasFailed(Drawn(kSync, descriptor)) ? -1 : next(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = Next<RenameCall>("rename");
  return HasFailed(Drawn(kRename, to)) ? -1 : next(from, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  static const auto next = Next<RenameAtCall>("renameat2");
  return HasFailed(Drawn(kRename, to)) ? -1 : next(from_directory, from, to_directory, to, flags);
}
}
