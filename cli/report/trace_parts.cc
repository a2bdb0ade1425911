// See trace_parts.h.
#include "cli/report/trace_parts.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kMostPartBytes = int64_t{1} << 30;
constexpr char kTraceEvents[] = "traceEvents", kOtherData[] = "otherData", kDropped[] = "dropped", kStamp[] = "ts";
constexpr char kOrigin[] = "origin_unix_us";

bool IsSpan(const nlohmann::ordered_json& event) { return event.value("ph", "") == "X"; }

int64_t NumberIn(const nlohmann::ordered_json& part, const char* key) {
  return part.contains(kOtherData) ? part[kOtherData].value(key, int64_t{0}) : 0;
}

}  // namespace

absl::StatusOr<TraceParts> TraceParts::Begin(std::string file, int64_t first, int64_t last,
                                             std::vector<std::string> parts) {
  const std::string directory = std::filesystem::path(file).parent_path().string();
  if (!directory.empty() && !IsDirectory(directory)) {
    return absl::InvalidArgumentError(absl::StrCat("--trace: ", directory, ": no such directory"));
  }
  if (IsDirectory(file)) {
    return absl::InvalidArgumentError(absl::StrCat("--trace: ", file, " is a directory; name a file"));
  }
  for (const std::string& part : parts) unlink(part.c_str());
  return TraceParts(std::move(file), first, last, std::move(parts));
}

std::string TraceParts::Join(bool at_the_end) {
  bool changed = false;
  for (const std::string& path : parts_) {
    if (!FileExists(path)) continue;
    const absl::StatusOr<std::string> text = ReadSmallFile(path, kMostPartBytes);
    if (!text.ok()) return absl::StrCat("--trace: ", text.status().message());
    nlohmann::ordered_json part = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (part.is_discarded() || !part.contains(kTraceEvents)) return absl::StrCat("--trace: ", path, " is no trace");
    taken_[path] = std::move(part);
    unlink(path.c_str());
    changed = true;
  }
  if (taken_.empty() && at_the_end) {
    return absl::StrCat("trace: this run has not done all of steps ", first_, "-", last_, "; ", file_,
                        " was not written");
  }
  if (!changed) return "";
  const nlohmann::ordered_json joined = JoinedTrace(taken_);
  std::set<int64_t> ranks;
  for (const nlohmann::ordered_json& event : joined[kTraceEvents]) ranks.insert(event.value("pid", int64_t{0}));
  const absl::Status written =
      WriteFileAtomically(file_, joined.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (!written.ok()) return absl::StrCat("--trace: ", written.message());
  const auto dropped = joined[kOtherData].value(kDropped, int64_t{0});
  return absl::StrCat("trace: steps ", first_, "-", last_, ", ", ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", "), ", in ", file_,
                      dropped == 0 ? "" : absl::StrCat("; ", dropped, " spans were too many and are left out"));
}

nlohmann::ordered_json JoinedTrace(const std::map<std::string, nlohmann::ordered_json>& parts) {
  int64_t first = std::numeric_limits<int64_t>::max(), dropped = 0;
  for (const auto& [path, part] : parts) {
    first = std::min(first, NumberIn(part, kOrigin));
    dropped += NumberIn(part, kDropped);
  }
  nlohmann::ordered_json joined = {{"displayTimeUnit", "ms"},
                                   {kOtherData, {{kOrigin, parts.empty() ? 0 : first}, {kDropped, dropped}}}};
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const auto& [path, part] : parts) {
    const auto later = static_cast<double>(NumberIn(part, kOrigin) - first);
    for (nlohmann::ordered_json event : part.at(kTraceEvents)) {
      if (IsSpan(event)) event[kStamp] = event.value(kStamp, 0.0) + later;
      events.push_back(std::move(event));
    }
  }
  joined[kTraceEvents] = std::move(events);
  return joined;
}

}  // namespace zerofleet::cli
