// See run_watcher.h.
#include "cli/launcher/run_watcher.h"

#include <utility>

#include "absl/time/clock.h"

namespace zerofleet::cli {
namespace {

constexpr absl::Duration kWatchAgainSeconds = absl::Seconds(30);  // how long a coordinator may take to answer
constexpr double kWatchAgainSliceSeconds = 0.1;                   // how soon the end of that wait is noticed

}  // namespace

RunWatcher::RunWatcher(services::OperatorClient& client) : client_(client), thread_([this] { Watch(); }) {}

RunWatcher::~RunWatcher() {
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = true;
  }
  client_.CancelWatch();
  thread_.join();
}

void RunWatcher::Again() {
  absl::MutexLock lock(&mutex_);
  again_until_ = absl::Now() + kWatchAgainSeconds;
  ended_ = false;
}

void RunWatcher::GiveUp() {
  absl::MutexLock lock(&mutex_);
  again_until_ = absl::InfinitePast();
}

std::vector<v1::Event> RunWatcher::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(events_, {});
}

bool RunWatcher::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

absl::Status RunWatcher::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void RunWatcher::Watch() {
  while (true) {
    const absl::Status status = client_.Watch([this](const v1::Event& event) {
      absl::MutexLock lock(&mutex_);
      events_.push_back(event);
    });
    {
      absl::MutexLock lock(&mutex_);
      status_ = status;
      ended_ = !absl::IsUnavailable(status) || absl::Now() >= again_until_;
      if (status.ok()) return;
      mutex_.Await(absl::Condition(this, &RunWatcher::MayGoOn));
      if (leaving_) return;
    }
    while (!client_.WaitForCoordinator(kWatchAgainSliceSeconds) && MayWait()) continue;
  }
}

bool RunWatcher::MayWait() const {
  absl::MutexLock lock(&mutex_);
  return !leaving_ && absl::Now() < again_until_;
}

}  // namespace zerofleet::cli
