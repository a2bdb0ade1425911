// Counts what a process has allocated, for soak.py. Preloaded (LD_PRELOAD), it adds up the bytes of all allocations
// that are not freed, and writes the sum once a second to the file in ZEROFLEET_HEAP_DIR that is named by the process
// id. Resident memory, and what mallinfo2 calls in use, include what the allocator keeps for its threads; this sum does
// not.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

// glibc's own names for its allocator, for replacements of it to call.
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

// This thread must not receive the program's signals.
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
