// Mapping at multiples of a huge page; see huge_pages.h.
#include "base/huge_pages.h"

#include <unistd.h>

#include <cstdint>

namespace zerofleet {
namespace {

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t Mapped(size_t bytes) { return RoundUp(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE))); }

}  // namespace

// Maps more, and gives back what is before and behind.
void* MapHugePages(size_t bytes) {
  const size_t wanted = Mapped(bytes);
  if (wanted < bytes || wanted + kHugePageBytes < wanted) throw std::bad_alloc();
  void* const mapped =
      mmap(nullptr, wanted + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<char*>(mapped);
  const size_t before =
      RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePageBytes) - reinterpret_cast<uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  munmap(begin + before + wanted, kHugePageBytes - before);
  PreferHugePages(begin + before, wanted);
  return begin + before;
}

void UnmapHugePages(void* data, size_t bytes) { munmap(data, Mapped(bytes)); }

}  // namespace zerofleet
