// Large memory in huge pages (2 MiB), where the system has them: fewer page faults and TLB misses. A kernel without
// them may refuse, which costs only speed.
#ifndef ZEROFLEET_BASE_HUGE_PAGES_H_
#define ZEROFLEET_BASE_HUGE_PAGES_H_

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace zerofleet {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Asks for huge pages in fresh memory, unless it is smaller than one.
inline void PreferHugePages(void* data, size_t bytes) {
  if (bytes >= kHugePageBytes) madvise(data, bytes, MADV_HUGEPAGE);
}

// Maps memory that begins with a huge page. Throws std::bad_alloc if there is none.
void* MapHugePages(size_t bytes);
void UnmapHugePages(void* data, size_t bytes);

// An allocator for standard containers that are large, and read at random places. What has the size of a huge page is
// mapped anew: memory that others have used before may be in small pages already.
template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename Other>
  HugePageAllocator(const HugePageAllocator<Other>&) {}  // containers convert it implicitly

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < kHugePageBytes ? ::operator new (bytes, std::align_val_t{alignof(T)})
                                                  : MapHugePages(bytes));
  }
  void deallocate(T* data, size_t count) {
    const size_t bytes = count * sizeof(T);
    bytes < kHugePageBytes ? ::operator delete (data, std::align_val_t{alignof(T)}) : UnmapHugePages(data, bytes);
  }
  template <typename Other>
  bool operator==(const HugePageAllocator<Other>&) const {
    return true;
  }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_HUGE_PAGES_H_
