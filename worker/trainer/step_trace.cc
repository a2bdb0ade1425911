// See step_trace.h. The format: "Trace Event Format", of Chrome's tracing; one complete event ("X") a line.
#include "worker/trainer/step_trace.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "worker/device/profile/traced_device.h"

namespace zerofleet::trainer {
namespace {

// The first thread of each lane in the file, which orders them from top to bottom.
constexpr int kLaneThreads = 1000;

// Names are of ops, units and groups; none has a character that JSON would not take, but for quotes in a file's.
std::string TraceString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  }
  return quoted + "\"";
}

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%d.%03d", nanoseconds / 1000, nanoseconds % 1000);
}

std::string MetadataLine(int rank, int thread, const char* what, const std::string& arguments) {
  return absl::StrCat("{\"ph\":\"M\",\"pid\":", rank, ",\"tid\":", thread, ",\"name\":\"", what, "\",\"args\":{",
                      arguments, "}}");
}

}  // namespace

StepTrace::StepTrace(TracedSteps steps, const Clock& clock, std::function<void(const std::string& json)> complete)
    : steps_(steps), clock_(clock), complete_(std::move(complete)) {}

void StepTrace::Enter(int rank, uint64_t generation) {
  origin_ = nullptr;
  keeps_ = false;
  absl::MutexLock lock(&mutex_);
  rank_ = rank;
  generation_ = generation;
}

absl::StatusOr<std::shared_ptr<device::Event>> StepTrace::Begin(device::Stream& stream) {
  if (origin_ == nullptr) {
    ZF_RETURN_IF_ERROR(stream.Synchronize());
    origin_ = stream.RecordTime();
    ZF_RETURN_IF_ERROR(origin_->Wait());
    origin_seconds_ = clock_.MonotonicSeconds();
  }
  keeps_ = true;
  return origin_;
}

void StepTrace::End(int64_t step, const std::vector<zero::PhaseSpan>& spans) {
  {
    absl::MutexLock lock(&mutex_);
    const std::string arguments = absl::StrCat("\"step\":", step, ",\"generation\":", generation_);
    if (!spans.empty()) {
      Keep(LaneOf(Lane::kSteps, "steps"), absl::StrCat("step ", step), origin_seconds_ + spans.front().begin,
           origin_seconds_ + spans.back().end, arguments);
    }
    const int lane = LaneOf(Lane::kPhases, "phases");
    for (const zero::PhaseSpan& span : spans) {
      Keep(lane, zero::kPhaseNames[static_cast<size_t>(span.phase)], origin_seconds_ + span.begin,
           origin_seconds_ + span.end, arguments);
    }
  }
  if (step < steps_.last) return;
  keeps_ = false;
  complete_(Json());
}

void StepTrace::AddPause(std::string_view name, double seconds) {
  if (!keeps_) return;
  const double ended = clock_.MonotonicSeconds();
  absl::MutexLock lock(&mutex_);
  Keep(LaneOf(Lane::kPhases, "phases"), name, ended - seconds, ended, "");
}

void StepTrace::Add(std::string_view op, const device::OpCall& call) {
  if (!keeps_) return;
  std::string arguments = absl::StrFormat("\"bytes\":%.0f", call.bytes);
  if (call.flops > 0) absl::StrAppend(&arguments, absl::StrFormat(",\"flops\":%.0f", call.flops));
  absl::MutexLock lock(&mutex_);
  const int thread = threads_.emplace(std::this_thread::get_id(), static_cast<int>(threads_.size())).first->second;
  const bool copies = op == device::kCopyName;
  const std::string title =
      absl::StrCat(copies ? "copies" : "ops", thread == 0 ? "" : absl::StrCat(", thread ", thread));
  Keep(LaneOf(copies ? Lane::kCopies : Lane::kOps, title), op, call.began, call.began + call.seconds,
       std::move(arguments));
}

void StepTrace::AddCollective(const std::string& group, const collective::CollectiveRecord& record) {
  if (!keeps_) return;
  const double ended = clock_.MonotonicSeconds();
  absl::MutexLock lock(&mutex_);
  Keep(LaneOf(Lane::kCollectives, absl::StrCat("collectives, ", group)),
       absl::StrCat(collective::OperationName(record.operation), " ", record.unit), ended - record.seconds, ended,
       absl::StrCat("\"bytes\":", record.traffic.sent, ",\"gathered_bytes\":", record.gathered_bytes));
}

int StepTrace::LaneOf(Lane lane, const std::string& title) {
  const auto [found, added] = lanes_.try_emplace(title, 0);
  if (added) found->second = static_cast<int>(lane) * kLaneThreads + static_cast<int>(lanes_.size());
  return found->second;
}

void StepTrace::Keep(int lane, std::string_view name, double began, double ended, std::string arguments) {
  if (spans_.size() >= kMostSpans) {
    ++dropped_;
    return;
  }
  spans_.push_back({std::string(name), began, ended, rank_, lane, std::move(arguments)});
}

std::string StepTrace::Json() const {
  constexpr size_t kUsualLineBytes = 160;
  absl::MutexLock lock(&mutex_);
  const double unix_offset = absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()) - clock_.MonotonicSeconds();
  std::set<int> ranks;
  double first = spans_.empty() ? 0 : spans_.front().began;
  for (const Span& span : spans_) {
    ranks.insert(span.rank);
    first = std::min(first, span.began);
  }
  std::string json =
      absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"first_step\":", steps_.first,
                   ",\"last_step\":", steps_.last, ",\"origin_unix_us\":", std::llround((unix_offset + first) * 1e6),
                   ",\"dropped\":", dropped_, "},\n\"traceEvents\":[");
  json.reserve(json.size() + spans_.size() * kUsualLineBytes);
  const char* separator = "\n";
  const auto add = [&](const std::string& line) {
    absl::StrAppend(&json, separator, line);
    separator = ",\n";
  };
  for (const int rank : ranks) {
    add(MetadataLine(rank, 0, "process_name", absl::StrCat("\"name\":\"rank ", rank, "\"")));
    add(MetadataLine(rank, 0, "process_sort_index", absl::StrCat("\"sort_index\":", rank)));
    for (const auto& [title, lane] : lanes_) {
      add(MetadataLine(rank, lane, "thread_name", absl::StrCat("\"name\":", TraceString(title))));
      add(MetadataLine(rank, lane, "thread_sort_index", absl::StrCat("\"sort_index\":", lane)));
    }
  }
  // Readers cut off fractions of a nanosecond, and drop a span that begins before the previous one in its lane has
  // ended; so a span is written a nanosecond short.
  for (const Span& span : spans_) {
    const int64_t began = Nanoseconds(span.began - first), ended = Nanoseconds(span.ended - first);
    add(absl::StrFormat(R"({"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"name":%s,"args":{%s}})", span.rank, span.lane,
                        Microseconds(began), Microseconds(std::max<int64_t>(ended - began - 1, 0)),
                        TraceString(span.name), span.arguments));
  }
  json += "\n]}\n";
  return json;
}

}  // namespace zerofleet::trainer
