// The system calls behind node_segment.h.
#include "worker/collective/node_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::collective {
namespace {

constexpr char kSegmentName[] = "zerofleet-collectives";
constexpr int kSegmentSeals = F_SEAL_SHRINK | F_SEAL_GROW;  // so that no mapping of it can fault
// The most that one system call reads, so that an abort or a peer's end is noticed between two calls.
constexpr int64_t kReadBytes = 4 << 20;

absl::Status RefusedBySystem(const absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

std::string ReadLink(const std::string& path) {
  char text[256];
  const ssize_t bytes = readlink(path.c_str(), text, sizeof text);
  return std::string(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
}

int OpenProcess(int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// A word of a segment as a futex. The kernel identifies it by its physical memory: in any process, at any address.
int* FutexOf(const std::atomic<uint32_t>& word) { return const_cast<int*>(reinterpret_cast<const int*>(&word)); }

// A file descriptor, closed on destruction unless it was released.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  int number() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

absl::StatusOr<NodeBoard*> MapBoard(int descriptor, int protection) {
  void* const mapping = mmap(nullptr, sizeof(NodeBoard), protection, MAP_SHARED, descriptor, 0);
  if (mapping == MAP_FAILED) return RefusedBySystem("mapping a segment");
  return static_cast<NodeBoard*>(mapping);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeSegment>> NodeSegment::Create() {
  Descriptor descriptor(memfd_create(kSegmentName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.number() < 0) return RefusedBySystem("memfd_create");
  if (ftruncate(descriptor.number(), sizeof(NodeBoard)) != 0) return RefusedBySystem("ftruncate");
  if (fcntl(descriptor.number(), F_ADD_SEALS, kSegmentSeals) != 0) return RefusedBySystem("sealing a segment");
  // Tries on this process what peers will need, so that a kernel or a filter that lacks it is noticed in time.
  const Descriptor self(OpenProcess(getpid()));
  if (self.number() < 0) return RefusedBySystem("pidfd_open");
  const char from = 1;
  char to = 0;
  const iovec local = {&to, 1}, remote = {const_cast<char*>(&from), 1};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1) return RefusedBySystem("process_vm_readv");
  // Where only a process's debugger may read its memory (Yama), lets any process of the same user be its debugger, as
  // UCX does.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  absl::StatusOr<NodeBoard*> mapped = MapBoard(descriptor.number(), PROT_READ | PROT_WRITE);
  if (!mapped.ok()) return mapped.status();
  NodeBoard* const board = new (*mapped) NodeBoard();
  board->nonce = DrawNonce();
  return std::unique_ptr<NodeSegment>(new NodeSegment(descriptor.Release(), board));
}

NodeSegment::~NodeSegment() {
  munmap(board_, sizeof(NodeBoard));
  close(descriptor_);
}

v1::NodeAddress NodeSegment::address() const {
  v1::NodeAddress address;
  address.set_node(NodeOf());
  address.set_pid(getpid());
  address.set_file(descriptor_);
  address.set_nonce(board_->nonce.data(), board_->nonce.size());
  address.set_nonce_address(reinterpret_cast<uint64_t>(&board_->nonce));
  return address;
}

void NodeSegment::Wake() { syscall(SYS_futex, FutexOf(board_->bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

absl::StatusOr<std::unique_ptr<PeerSegment>> PeerSegment::Open(const v1::NodeAddress& address) {
  const int pid = address.pid();
  Descriptor process(OpenProcess(pid));
  if (process.number() < 0) return RefusedBySystem("pidfd_open");
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", address.file());
  // Opening a file that is not a segment may have side effects.
  if (!absl::StrContains(ReadLink(path), absl::StrCat("memfd:", kSegmentName))) {
    return absl::UnavailableError(absl::StrCat(path, " is not a segment"));
  }
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.number() < 0) return RefusedBySystem(absl::StrCat("opening ", path));
  struct stat status = {};
  if (fstat(descriptor.number(), &status) != 0) return RefusedBySystem(absl::StrCat("looking at ", path));
  const int seals = fcntl(descriptor.number(), F_GET_SEALS);
  if (status.st_size != sizeof(NodeBoard) || seals < 0 || (seals & kSegmentSeals) != kSegmentSeals) {
    return absl::UnavailableError(absl::StrCat(path, " is a segment of another release"));
  }
  absl::StatusOr<NodeBoard*> board = MapBoard(descriptor.number(), PROT_READ);
  if (!board.ok()) return board.status();
  std::unique_ptr<PeerSegment> peer(new PeerSegment(process.Release(), pid, *board));
  Nonce nonce;
  absl::Status read = peer->Read(nonce.data(), address.nonce_address(), sizeof nonce);
  if (!read.ok()) return read;
  const absl::string_view expected = address.nonce();
  const auto is_expected = [&](const Nonce& found) {
    return expected == absl::string_view(reinterpret_cast<const char*>(found.data()), found.size());
  };
  if (!is_expected(nonce) || !is_expected((*board)->nonce)) {
    return absl::UnavailableError(absl::StrCat("process ", pid, " is not the rank"));
  }
  return peer;
}

PeerSegment::~PeerSegment() {
  munmap(const_cast<NodeBoard*>(board_), sizeof(NodeBoard));
  close(process_);
}

absl::Status PeerSegment::Read(void* to, uint64_t from, int64_t bytes) const {
  for (int64_t read = 0; read < bytes;) {
    const size_t wanted = static_cast<size_t>(std::min(bytes - read, kReadBytes));
    const iovec local = {static_cast<std::byte*>(to) + read, wanted};
    const iovec remote = {reinterpret_cast<void*>(from + static_cast<uint64_t>(read)), wanted};
    const ssize_t got = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (got < 0 && errno != ESRCH) return RefusedBySystem("reading a peer's memory");
    // Once the process has ended, another process may have its number.
    if (got <= 0 || HasEnded()) return absl::UnavailableError("its process has ended");
    read += got;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (board_->withdrawn.load(std::memory_order_seq_cst) != 0) return absl::UnavailableError("it has left");
  return absl::OkStatus();
}

bool PeerSegment::HasEnded() const {
  pollfd descriptor = {.fd = process_, .events = POLLIN, .revents = 0};
  return poll(&descriptor, 1, 0) > 0;
}

void PeerSegment::SleepWhile(uint32_t seen, absl::Duration limit) const {
  const timespec timeout = absl::ToTimespec(limit);
  syscall(SYS_futex, FutexOf(board_->bell), FUTEX_WAIT, static_cast<int>(seen), &timeout, nullptr, 0);
}

std::string NodeOf() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  const std::string pids = ReadLink("/proc/self/ns/pid");
  return boot.empty() || pids.empty() ? "" : absl::StrCat(boot, " ", pids, " ", geteuid());
}

}  // namespace zerofleet::collective
