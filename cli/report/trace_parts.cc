// See trace_parts.h. Parts are read as StepTrace::Json writes them: line by line, one event per line.
#include "cli/report/trace_parts.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {
namespace {

constexpr std::string_view kBeforeEvents = "\n\"traceEvents\":[\n", kAfterEvents = "]}\n", kSpan = "{\"ph\":\"X\",";
constexpr std::string_view kRank = "\"pid\":", kStamp = "\"ts\":";
constexpr size_t kMostHeadBytes = 4096;
constexpr int64_t kMostPartBytes = int64_t{1} << 30;
constexpr size_t kPieceBytes = size_t{1} << 20;

int64_t NumberIn(const nlohmann::json& head, const char* key) {
  const auto data = head.find("otherData");
  if (data == head.end() || !data->is_object()) return 0;
  constexpr int64_t kLargest = int64_t{1} << 53;  // sums of several such numbers fit into 64 bits
  const auto number = data->find(key);
  if (number == data->end() || !number->is_number_integer()) return 0;
  return std::clamp<int64_t>(number->get<int64_t>(), 0, kLargest);
}

std::string_view WithoutComma(std::string_view text) {
  if (text.ends_with(',')) text.remove_suffix(1);
  return text;
}

absl::StatusOr<TracePart> ReadTracePart(const std::string& path) {
  TracePart part;
  ZF_ASSIGN_OR_RETURN(part.text, ReadSmallFile(path, kMostPartBytes));
  const std::string_view text = part.text;
  const size_t head_bytes = text.substr(0, kMostHeadBytes).find(kBeforeEvents);
  if (head_bytes == std::string_view::npos || !text.ends_with(kAfterEvents)) {
    return absl::DataLossError(absl::StrCat(path, " is no trace"));
  }
  const std::string head = std::string(WithoutComma(text.substr(0, head_bytes))) + "}";
  const nlohmann::json parsed = nlohmann::json::parse(head, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return absl::DataLossError(absl::StrCat(path, " is no trace"));
  part.origin_unix_us = NumberIn(parsed, "origin_unix_us");
  part.dropped = NumberIn(parsed, "dropped");
  part.begin = head_bytes + kBeforeEvents.size();
  part.end = text.size() - kAfterEvents.size();
  return part;
}

// The number that follows the first occurrence of `key` in a line; the event's own keys come before any name that could
// contain them.
struct FoundNumber {
  int64_t value;
  size_t begin, end;  // its digits in the line
};
std::optional<FoundNumber> NumberBehind(std::string_view key, std::string_view line) {
  const size_t found = line.find(key);
  if (found == std::string_view::npos) return std::nullopt;
  const size_t begin = found + key.size();
  FoundNumber number{0, begin, 0};
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + line.size(), number.value);
  if (error != std::errc()) return std::nullopt;
  number.end = static_cast<size_t>(stop - line.data());
  return number;
}

// Writes text to a new file in large pieces.
class PieceWriter {
 public:
  explicit PieceWriter(DurableFile& file) : file_(file) {}
  absl::Status Add(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) pending_ += text;
    return pending_.size() < kPieceBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    ZF_RETURN_IF_ERROR(file_.Write(std::as_bytes(std::span(pending_))));
    pending_.clear();
    return absl::OkStatus();
  }

 private:
  DurableFile& file_;
  std::string pending_;
};

// Writes the events of the part that was at `path`, their times shifted by `later_us` microseconds; adds the ranks that
// it names to `ranks`.
absl::Status AddEvents(const std::string& path, const TracePart& part, int64_t later_us, bool& first,
                       std::set<int64_t>& ranks, PieceWriter& writer) {
  std::string_view rest = std::string_view(part.text).substr(part.begin, part.end - part.begin);
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string_view event = WithoutComma(line);
    const bool span = event.starts_with(kSpan);
    const std::optional<FoundNumber> rank = NumberBehind(kRank, event);
    const std::optional<FoundNumber> stamp = span ? NumberBehind(kStamp, event) : FoundNumber{0, 0, 0};
    if (!rank || !stamp || stamp->value > std::numeric_limits<int64_t>::max() - later_us) {
      return absl::DataLossError(absl::StrCat(path, " is no trace: event ", number, " has no place in it"));
    }
    ranks.insert(rank->value);
    const std::string_view separator = first ? "" : ",\n";
    first = false;
    ZF_RETURN_IF_ERROR(span ? writer.Add({separator, event.substr(0, stamp->begin),
                                          std::to_string(stamp->value + later_us), event.substr(stamp->end)})
                            : writer.Add({separator, event}));
  }
  return absl::OkStatus();
}

struct JoinedTrace {
  std::set<int64_t> ranks;
  int64_t dropped = 0;
};

using PartsByPath = std::map<std::string, TracePart>;

absl::StatusOr<JoinedTrace> WriteTrace(const PartsByPath& parts, const std::string& path) {
  JoinedTrace joined;
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const auto& [of, part] : parts) {
    origin = std::min(origin, part.origin_unix_us);
    joined.dropped += part.dropped;
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  PieceWriter writer(*file);
  ZF_RETURN_IF_ERROR(
      writer.Add({"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"origin_unix_us\":", std::to_string(origin),
                  ",\"dropped\":", std::to_string(joined.dropped), "},", kBeforeEvents}));
  bool first = true;
  for (const auto& [of, part] : parts) {
    ZF_RETURN_IF_ERROR(AddEvents(of, part, part.origin_unix_us - origin, first, joined.ranks, writer));
  }
  ZF_RETURN_IF_ERROR(writer.Add({first ? "" : "\n", kAfterEvents}));
  ZF_RETURN_IF_ERROR(writer.Flush());
  ZF_RETURN_IF_ERROR(file->Sync());
  return joined;
}

absl::StatusOr<JoinedTrace> ReplaceTrace(const PartsByPath& parts, const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const std::string file, ReplaceableFile(path));
  const std::string temporary = JoinPath(ParentOf(file), absl::StrCat(".zerofleet.", getpid(), ".tmp"));
  unlink(temporary.c_str());
  absl::StatusOr<JoinedTrace> written = WriteTrace(parts, temporary);
  absl::Status status = written.status();
  if (status.ok()) status = Rename(temporary, file);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  ZF_RETURN_IF_ERROR(SyncDirectory(ParentOf(file)));
  return written;
}

// Removes a part, and the temporary file that a worker leaves if it dies while writing it.
void RemovePart(const std::string& path) {
  unlink(path.c_str());
  unlink(absl::StrCat(path, ".tmp").c_str());
}

}  // namespace

absl::StatusOr<TraceParts> TraceParts::Begin(std::string file, int64_t first, int64_t last,
                                             std::vector<std::string> parts) {
  ZF_RETURN_IF_ERROR(Annotate(ReplaceableFile(file).status(), "--trace"));
  for (const std::string& part : parts) RemovePart(part);
  return TraceParts(std::move(file), first, last, std::move(parts));
}

std::string TraceParts::StepDone(int64_t step) {
  const bool traced = step >= first_ && step <= last_;
  if (traced && (first_done_ == 0 || step < first_done_)) first_done_ = step;
  last_done_ = last_done_ || step == last_;
  return step == last_ + 1 ? Join().value_or("") : "";
}

std::string TraceParts::End() {
  const absl::StatusOr<std::string> line = Join();
  for (const std::string& part : parts_) RemovePart(part);
  if (status_.ok()) status_ = line.status();
  if (!status_.ok()) return "";
  if (!taken_.empty()) return *line;
  if (!last_done_) {
    return absl::StrCat("trace: this run has not done all of steps ", first_, "-", last_, "; ", file_,
                        " was not written");
  }
  status_ = absl::ResourceExhaustedError(absl::StrCat("--trace: no worker could write its part of steps ", first_, "-",
                                                      last_, "; the logs in ", ParentOf(parts_.front()), " say why; ",
                                                      file_, " was not written"));
  return "";
}

// "steps 7-10", or "steps 9-10 of 7-10" if the run resumed in between.
std::string TraceParts::StepsText() const {
  const std::string asked = absl::StrCat(first_, "-", last_);
  if (first_done_ <= first_) return absl::StrCat("steps ", asked);
  return absl::StrCat("steps ", first_done_, "-", last_, " of ", asked);
}

absl::StatusOr<std::string> TraceParts::Join() {
  for (const std::string& path : parts_) {
    absl::StatusOr<TracePart> part = ReadTracePart(path);
    if (absl::IsNotFound(part.status())) continue;
    unlink(path.c_str());
    if (!part.ok()) return status_ = Annotate(part.status(), "--trace");
    taken_[path] = *std::move(part);
    written_ = false;
  }
  if (written_) return "";
  const absl::StatusOr<JoinedTrace> joined = ReplaceTrace(taken_, file_);
  if (absl::IsDataLoss(joined.status())) return status_ = Annotate(joined.status(), "--trace");
  if (!joined.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--trace: ", file_, " was not written: ", joined.status().message()));
  }
  written_ = true;
  return absl::StrCat(
      "trace: ", StepsText(), ", ", joined->ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(joined->ranks, ", "),
      ", in ", file_,
      joined->dropped == 0 ? "" : absl::StrCat("; ", joined->dropped, " spans were too many and are left out"));
}

}  // namespace zerofleet::cli
