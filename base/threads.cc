// Threads for the time of a call; see threads.h.
#include "base/threads.h"

#include <system_error>
#include <thread>
#include <vector>

namespace zerofleet {

void RunOnThreads(int threads, const std::function<void()>& work) {
  std::vector<std::thread> helpers;
  try {
    while (static_cast<int>(helpers.size()) + 1 < threads) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // The system's limit on threads is reached.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace zerofleet
