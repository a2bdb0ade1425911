// Threads for the time of a call; see threads.h.
#include "base/threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace zerofleet {

void RunOnThreads(int threads, const std::function<void()>& work) {
  std::exception_ptr first;
  std::mutex mutex;  // of `first`
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<size_t>(std::max(0, threads - 1)));
  try {
    while (static_cast<int>(helpers.size()) + 1 < threads) helpers.emplace_back(guarded);
  } catch (const std::system_error&) {
    // The system's limit on threads is reached.
  } catch (const std::bad_alloc&) {
    // There is no memory for another one.
  }
  guarded();
  for (std::thread& helper : helpers) helper.join();
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace zerofleet
