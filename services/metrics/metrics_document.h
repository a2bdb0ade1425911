// For tests: compares what is exported with the page for users, docs/metrics.md.
#ifndef ZEROFLEET_SERVICES_METRICS_METRICS_DOCUMENT_H_
#define ZEROFLEET_SERVICES_METRICS_METRICS_DOCUMENT_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/file.h"

namespace zerofleet::services {

// The label values of an exposition that the page has neither in the metric's row nor in the label's, as "metric:
// label=value". Labels whose values depend on the run, such as rank, are not checked.
inline std::vector<std::string> UndocumentedLabelValues(const std::string& exposition) {
  const std::set<std::string> listed = {"phase", "space",     "category", "operation", "group",
                                        "state", "direction", "cause",    "kind"};
  const absl::StatusOr<std::string> page = ReadSmallFile("docs/metrics.md", 1 << 20);
  ZF_CHECK(page.ok());
  const auto row_of = [&](const std::string& name) {
    for (const absl::string_view line : absl::StrSplit(*page, '\n')) {
      if (absl::StartsWith(line, absl::StrCat("| `", name, "` |"))) return std::string(line);
    }
    return std::string();
  };
  std::vector<std::string> missing;
  for (const absl::string_view line : absl::StrSplit(exposition, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(absl::ByAnyChar("{}"), 2));
    if (absl::StartsWith(line, "#") || parts.size() < 3) continue;
    std::string metric = parts[0];
    for (const char* end : {"_bucket", "_sum", "_count"}) metric = std::string(absl::StripSuffix(metric, end));
    for (const absl::string_view label : absl::StrSplit(parts[1], ',')) {
      const std::pair<std::string, std::string> named = absl::StrSplit(label, absl::MaxSplits("=\"", 1));
      const std::string value(absl::StripSuffix(named.second, "\""));
      const std::string rows = absl::StrCat(row_of(metric), row_of(named.first));
      if (!listed.contains(named.first) || absl::StrContains(rows, absl::StrCat("`", value, "`"))) continue;
      missing.push_back(absl::StrCat(metric, ": ", named.first, "=", value));
    }
  }
  return missing;
}

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_METRICS_METRICS_DOCUMENT_H_
