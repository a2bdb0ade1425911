// The queue and the thread that writes it; see log_pump.h.
#include "services/coordinator/log_pump.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::services {
namespace {

std::string DroppedText(uint64_t lines) {
  return absl::StrCat(lines, " lines were left out here: the log is written too slowly");
}

}  // namespace

LogPump::LogPump(Write write, size_t most_queued)
    : write_(std::move(write)), most_queued_(most_queued), writer_([this] { WriteUntilClosed(); }) {}

LogPump::~LogPump() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  writer_.join();
}

void LogPump::Push(LogLevel level, std::string line) {
  absl::MutexLock lock(&mutex_);
  if (lines_.size() >= most_queued_) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    lines_.push_back({LogLevel::kWarning, DroppedText(dropped_)});
    dropped_ = 0;
  }
  lines_.push_back({level, std::move(line)});
}

void LogPump::WriteUntilClosed() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &LogPump::due));
    if (lines_.empty()) break;  // closing
    const Line line = std::move(lines_.front());
    lines_.pop_front();
    mutex_.Unlock();
    write_(line.level, line.text);
    mutex_.Lock();
  }
  if (dropped_ > 0) write_(LogLevel::kWarning, DroppedText(dropped_));
}

}  // namespace zerofleet::services
