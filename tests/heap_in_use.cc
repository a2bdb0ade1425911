// What a process has allocated, for soak.py: preloaded (LD_PRELOAD), it counts the bytes of every allocation that is
// not freed, and writes them, once a second, to the file named by the process's number in ZEROFLEET_HEAP_DIR. Resident
// memory, and what mallinfo2 calls in use, also hold what the allocator keeps for its threads; these bytes do not.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

// glibc's own names of its allocator, for those who stand in for it.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);
}

namespace {

std::atomic<long> in_use{0};

void* Counted(void* block) {
  in_use.fetch_add(static_cast<long>(malloc_usable_size(block)), std::memory_order_relaxed);
  return block;
}

void* WriteEverySecond(void*) {
  char path[4096];
  std::snprintf(path, sizeof(path), "%s/%d", std::getenv("ZEROFLEET_HEAP_DIR"), getpid());
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  while (file >= 0) {
    char line[32];
    const int length = std::snprintf(line, sizeof(line), "%20ld\n", in_use.load(std::memory_order_relaxed));
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

extern "C" {

void* malloc(size_t bytes) { return Counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return Counted(__libc_calloc(count, bytes)); }
void* memalign(size_t alignment, size_t bytes) { return Counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return Counted(__libc_memalign(alignment, bytes)); }

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = Counted(__libc_memalign(alignment, bytes));
  return *block ? 0 : ENOMEM;
}

void* realloc(void* block, size_t bytes) {
  const long before = static_cast<long>(malloc_usable_size(block));
  void* const moved = __libc_realloc(block, bytes);
  if (moved || bytes == 0) in_use.fetch_sub(before, std::memory_order_relaxed);
  return Counted(moved);
}

void free(void* block) {
  in_use.fetch_sub(static_cast<long>(malloc_usable_size(block)), std::memory_order_relaxed);
  __libc_free(block);
}

}  // extern "C"
