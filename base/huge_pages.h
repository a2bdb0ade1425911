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

// An allocator for standard containers that are large, and read at random places.
template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename Other>
  HugePageAllocator(const HugePageAllocator<Other>&) {}  // containers convert it implicitly

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    void* data = ::operator new(bytes, AlignmentOf(count));
    PreferHugePages(data, bytes);
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t count) { ::operator delete(data, AlignmentOf(count)); }
  template <typename Other>
  bool operator==(const HugePageAllocator<Other>&) const {
    return true;
  }

 private:
  static std::align_val_t AlignmentOf(size_t count) {
    return std::align_val_t{count * sizeof(T) >= kHugePageBytes ? kHugePageBytes : alignof(T)};
  }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_HUGE_PAGES_H_
