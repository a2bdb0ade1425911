// For tests: a deadline for collectives, so that ranks that wait for each other end the test in minutes and say where.
//
// A wrong number of chunks, or a message that is never sent, shows as ranks that wait. An expired watchdog names the
// operation that each rank is in, and aborts the process.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_WATCHDOG_TESTING_H_
#define ZEROFLEET_WORKER_COLLECTIVE_WATCHDOG_TESTING_H_

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define ZEROFLEET_WATCHDOG_SLOW 1
#endif
#endif

namespace zerofleet::collective {

// The longest of these tests takes 3 seconds alone, and 42 on a machine with 15 processes per core.
#ifdef ZEROFLEET_WATCHDOG_SLOW
inline constexpr absl::Duration kCollectiveTestLimit = absl::Seconds(600);
#else
inline constexpr absl::Duration kCollectiveTestLimit = absl::Seconds(180);
#endif

// "rank 0 is in all_reduce #3 of block.1; rank 1 has completed 2 and is in none"
inline std::string DescribeProgress(const std::vector<std::unique_ptr<Communicator>>& communicators) {
  std::string text;
  for (size_t rank = 0; rank < communicators.size(); rank++) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", rank);
    if (communicators[rank] == nullptr) {
      text += " is leaving or has left";
      continue;
    }
    const CollectiveProgress progress = communicators[rank]->progress();
    if (progress.sequence > progress.completed) {
      absl::StrAppend(&text, " is in ", OperationName(progress.operation), " #", progress.sequence, " of ",
                      progress.unit);
    } else {
      absl::StrAppend(&text, " has completed ", progress.completed, " and is in none");
    }
  }
  return text;
}

// If it lives longer than `limit`, it prints what `describe` returns and aborts the process.
class Watchdog {
 public:
  explicit Watchdog(std::function<std::string()> describe, absl::Duration limit = kCollectiveTestLimit)
      : describe_(std::move(describe)), thread_([this, limit] {
          if (done_.WaitForNotificationWithTimeout(limit)) return;
          std::fprintf(stderr, "stuck: %s\n", describe_().c_str());
          std::abort();
        }) {}
  // Watches a group that outlives the watchdog; its communicators may be reset meanwhile.
  explicit Watchdog(const std::vector<std::unique_ptr<Communicator>>& group,
                    absl::Duration limit = kCollectiveTestLimit)
      : Watchdog([&group] { return DescribeProgress(group); }, limit) {}
  ~Watchdog() {
    done_.Notify();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  const std::function<std::string()> describe_;
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_WATCHDOG_TESTING_H_
