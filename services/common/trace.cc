// Making and parsing traceparents; see trace.h.
#include "services/common/trace.h"

#include <sys/random.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace zerofleet::services {
namespace {

// Version, trace id, the caller's span, flags: 00-TRACE-SPAN-01.
constexpr size_t kTraceDigits = 32, kSpanDigits = 16, kLength = 2 + 1 + kTraceDigits + 1 + kSpanDigits + 1 + 2;
constexpr char kSampled[] = "01";

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view digits) { return digits.find_first_not_of('0') == std::string_view::npos; }

std::string Random(size_t digits) {
  std::string bytes(digits / 2, '\0');
  ZF_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  bytes.back() = static_cast<char>(bytes.back() | 1);  // not all zero
  return absl::BytesToHexString(bytes);
}

}  // namespace

std::string NewTraceId() { return Random(kTraceDigits); }

bool IsTraceId(std::string_view text) { return text.size() == kTraceDigits && IsHex(text) && !IsZero(text); }

std::string TraceparentOf(const std::string& trace_id) {
  if (trace_id.empty()) return "";
  return absl::StrCat("00-", trace_id, "-", Random(kSpanDigits), "-", kSampled);
}

std::string TraceIdIn(std::string_view traceparent) {
  if (traceparent.size() < kLength || traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-')
    return "";
  const std::string_view version = traceparent.substr(0, 2), span = traceparent.substr(36, kSpanDigits);
  // A later version may have more after another hyphen; version 00 may not.
  if (!IsHex(version) || version == "ff" || !IsHex(span) || IsZero(span) || !IsHex(traceparent.substr(53, 2)))
    return "";
  if (traceparent.size() > kLength && (version == "00" || traceparent[kLength] != '-')) return "";
  const std::string_view trace_id = traceparent.substr(3, kTraceDigits);
  return IsTraceId(trace_id) ? std::string(trace_id) : "";
}

}  // namespace zerofleet::services
