// What a process has allocated, for soak.py: preloaded (LD_PRELOAD), it writes the bytes that the C library's allocator
// has handed out and not taken back, once a second, to the file named by the process's number in ZEROFLEET_HEAP_DIR.
// Resident memory also holds what allocators and threads keep for later; these bytes do not.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace {

void* WriteEverySecond(void*) {
  char path[4096];
  std::snprintf(path, sizeof(path), "%s/%d", std::getenv("ZEROFLEET_HEAP_DIR"), getpid());
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  while (file >= 0) {
    const struct mallinfo2 heap = mallinfo2();
    char line[32];
    const int length = std::snprintf(line, sizeof(line), "%20zu\n", heap.uordblks + heap.hblkhd);
    if (pwrite(file, line, length, 0) != length) break;
    sleep(1);
  }
  return nullptr;
}

// The program's signals are not for this thread.
__attribute__((constructor)) void Begin() {
  if (!std::getenv("ZEROFLEET_HEAP_DIR")) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, WriteEverySecond, nullptr) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
