// A thread that may hang, and ticks that count for how long; see storage_calls.h.
#include "services/storage/storage_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace zerofleet::services {
namespace {

constexpr double kMostPerTick = 1;  // seconds
constexpr char kStallKey[] = "checkpoint.stall_timeout_seconds";

}  // namespace

StorageCalls::StorageCalls(Limits limits, std::function<void(const std::string&)> tell, const Clock& clock)
    : limits_(limits), tell_(std::move(tell)), clock_(clock), last_tick_(clock.MonotonicSeconds()), thread_([this] {
        CallUntilShutDown();
      }) {}

StorageCalls::~StorageCalls() {
  {
    absl::MutexLock lock(&mutex_);
    shutting_down_ = true;
  }
  thread_.join();
}

absl::Status StorageCalls::GivenUp() const {
  return absl::DataLossError(
      absl::StrFormat("%s has got no further for %g s (%s, and restart.form_timeout_seconds on top)", what_,
                      limits_.stall_seconds + limits_.patience_seconds, kStallKey));
}

absl::Status StorageCalls::Run(const std::string& what, std::function<absl::Status()> call) {
  absl::MutexLock lock(&mutex_);
  if (running_) return GivenUp();
  what_ = what;
  call_ = std::move(call);
  running_ = true;
  told_ = given_up_ = false;
  waited_ = 0;
  result_.reset();
  mutex_.Await(absl::Condition(this, &StorageCalls::settled));
  return result_ ? *result_ : GivenUp();
}

void StorageCalls::Tick() {
  const double now = clock_.MonotonicSeconds();
  const double passed = std::min(kMostPerTick, now - std::exchange(last_tick_, now));
  std::string line;
  {
    absl::MutexLock lock(&mutex_);
    if (limits_.stall_seconds == 0 || !running_ || given_up_) return;
    waited_ += passed;
    given_up_ = waited_ > limits_.stall_seconds + limits_.patience_seconds;
    if (told_ || waited_ <= limits_.stall_seconds) return;
    told_ = true;
    line = absl::StrFormat(
        "%s has got no further for %g s (%s): look at its storage; the fleet is told nothing new until it has, and the "
        "run ends if it stands still for %g s more",
        what_, limits_.stall_seconds, kStallKey, limits_.patience_seconds);
  }
  tell_(line);
}

void StorageCalls::CallUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &StorageCalls::due));
    if (call_ == nullptr) return;  // shutting down
    std::function<absl::Status()> call = std::exchange(call_, nullptr);
    mutex_.Unlock();
    absl::Status status = call();
    call = nullptr;
    mutex_.Lock();
    running_ = false;
    if (!given_up_) result_ = std::move(status);
  }
}

}  // namespace zerofleet::services
