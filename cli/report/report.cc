// Events as report lines, and the file they go to; see report.h.
#include "cli/report/report.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/memory/arena.h"

namespace zerofleet::cli {
namespace {

using EventJson = nlohmann::ordered_json;

// Every category, in the order of their table, whether or not the rank used it.
EventJson SpaceMemory(const google::protobuf::Map<std::string, v1::CategoryMemory>& used) {
  EventJson memory = EventJson::object();
  for (int i = 0; i < memory::kCategories; ++i) {
    const char* name = memory::CategoryName(static_cast<memory::Category>(i));
    const auto found = used.find(name);
    memory[name] = ProtoToJson(found == used.end() ? v1::CategoryMemory() : found->second);
  }
  return memory;
}

EventJson RankJson(const v1::RankReport& rank) {
  EventJson collectives = EventJson::array();
  for (const v1::CollectiveReport& each : rank.collectives()) collectives.push_back(ProtoToJson(each));
  EventJson link = EventJson::object();
  for (const v1::LinkReport& each : rank.link()) {
    link[each.direction()] = {{"copies", each.copies()}, {"bytes", each.bytes()}};
  }
  EventJson data = EventJson::array();  // the rank's samples by set; only rank 0 has it, where data.train is a mixture
  for (const v1::SetShare& each : rank.data()) data.push_back(ProtoToJson(each));
  return {
      {"rank", rank.rank()},
      {"memory", {{"device", SpaceMemory(rank.device_memory())}, {"host", SpaceMemory(rank.host_memory())}}},
      {"reserved_bytes", {{"device", rank.device_reserved_bytes()}, {"host", rank.host_reserved_bytes()}}},
      {"fragmentation_ratio",
       {{"device", rank.device_fragmentation_ratio()}, {"host", rank.host_fragmentation_ratio()}}},
      {"rss_peak_bytes", rank.rss_peak_bytes()},
      {"collectives", std::move(collectives)},
      {"link", std::move(link)},
      {"data", std::move(data)},
  };
}

EventJson EndJson(const v1::EndEvent& end) {
  EventJson ranks = EventJson::array();
  for (const v1::RankReport& rank : end.ranks()) ranks.push_back(RankJson(rank));
  return {{"step", end.step()},
          {"seconds", end.seconds()},
          {"tokens", end.tokens()},
          {"stopped", end.stopped()},
          {"ranks", std::move(ranks)}};
}

// The text after the last newline of a file of `file_bytes` bytes; only its end if it is longer than any line of a
// report.
absl::StatusOr<std::string> LastPart(const std::string& path, int64_t file_bytes) {
  constexpr int64_t kPieceBytes = 64 << 10, kMostBytes = 32 << 20;
  std::string part;
  while (file_bytes > 0 && static_cast<int64_t>(part.size()) < kMostBytes) {
    std::string piece(static_cast<size_t>(std::min(kPieceBytes, file_bytes)), '\0');
    file_bytes -= static_cast<int64_t>(piece.size());
    ZF_RETURN_IF_ERROR(ReadAt(path, file_bytes, std::as_writable_bytes(std::span(piece))));
    const size_t newline = piece.rfind('\n');
    if (newline != piece.npos) return piece.substr(newline + 1) + part;
    part.insert(0, piece);
  }
  return part;
}

}  // namespace

std::string ReportLine(const v1::Event& event) {
  const char* name = nullptr;
  EventJson fields;
  switch (event.body_case()) {
    case v1::Event::kStart: name = "start", fields = ProtoToJson(event.start()); break;
    case v1::Event::kStep: name = "step", fields = ProtoToJson(event.step()); break;
    case v1::Event::kEvaluate: name = "evaluate", fields = ProtoToJson(event.evaluate()); break;
    case v1::Event::kCheckpoint: name = "checkpoint", fields = ProtoToJson(event.checkpoint()); break;
    case v1::Event::kSaveFailed: name = "save_failed", fields = ProtoToJson(event.save_failed()); break;
    case v1::Event::kRollback: name = "rollback", fields = ProtoToJson(event.rollback()); break;
    case v1::Event::kRecovery: name = "recovery", fields = ProtoToJson(event.recovery()); break;
    case v1::Event::kEnd: name = "end", fields = EndJson(event.end()); break;
    case v1::Event::kFailure:
    case v1::Event::kHistogram:
    case v1::Event::kLost:
    case v1::Event::kNotice:
    case v1::Event::BODY_NOT_SET: return "";
  }
  const absl::Time time = absl::UnixEpoch() + absl::Seconds(event.unix_seconds());
  // The format of the logs' times, so that lines of both can be compared.
  EventJson line = {{"event", name}, {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone())}};
  line.update(fields);
  return DumpJson(line);
}

absl::StatusOr<std::unique_ptr<ReportWriter>> ReportWriter::Open(const std::string& path) {
  // A FIFO without a reader is refused without waiting, and a full pipe never delays the run.
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  if (descriptor < 0 && errno == ENXIO) {
    return absl::InvalidArgumentError(
        absl::StrCat("--report: ", path, " has no reader; start what reads it first, or name a regular file"));
  }
  if (descriptor < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--report: ", path, " cannot be opened for writing: ", std::strerror(errno)));
  }
  std::unique_ptr<ReportWriter> writer(new ReportWriter(path, descriptor));
  ZF_RETURN_IF_ERROR(writer->MendEnd());
  return writer;
}

absl::Status ReportWriter::MendEnd() {
  struct stat info = {};
  if (fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::string tail, LastPart(path_, info.st_size));
  if (tail.empty()) return absl::OkStatus();
  constexpr std::string_view kBegin = R"({"event":)";
  if (!std::string_view(tail).starts_with(kBegin) && !kBegin.starts_with(tail)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--report: ", path_, " ends in what is no line of a report; name another file"));
  }
  if (ParseJson(tail).ok()) {  // only the newline is missing
    waiting_ = "\n";
    return absl::OkStatus();
  }
  if (ftruncate(descriptor_, info.st_size - static_cast<off_t>(tail.size())) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--report: ", path_, " ends in part of a line, which cannot be cut off: ", std::strerror(errno)));
  }
  note_ = absl::StrCat("report ", path_, ": its last line was cut short and has been removed");
  return absl::OkStatus();
}

ReportWriter::~ReportWriter() { close(descriptor_); }

void ReportWriter::Fail(const std::string& why) {
  status_ = absl::ResourceExhaustedError(absl::StrCat("report ", path_, ": ", why, "; it ends before this run did"));
  waiting_.clear();
}

void ReportWriter::Flush() {
  size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t count = write(descriptor_, waiting_.data() + written, waiting_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return Fail(std::strerror(errno));
    written += static_cast<size_t>(count);
  }
  waiting_.erase(0, written);
}

void ReportWriter::Write(const v1::Event& event) {
  const std::string line = ReportLine(event);
  if (line.empty() || !status_.ok()) return;
  waiting_ += line;
  waiting_ += '\n';
  Flush();
  if (waiting_.size() > kMostWaiting) Fail("its reader is too slow");
}

const absl::Status& ReportWriter::Finish(double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (status_.ok() && !waiting_.empty()) {
    const std::chrono::duration<double, std::milli> left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      Fail("its reader is too slow");
      break;
    }
    pollfd waited = {descriptor_, POLLOUT, 0};
    poll(&waited, 1, static_cast<int>(left.count()) + 1);
    Flush();
  }
  return status_;
}

}  // namespace zerofleet::cli
