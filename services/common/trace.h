// Trace ids as W3C Trace Context has them (https://www.w3.org/TR/trace-context/): all processes of a view put one id
// into their logs and calls, so that a generation can be followed across hosts, and next to the traces of other
// programs there.
#ifndef ZEROFLEET_SERVICES_COMMON_TRACE_H_
#define ZEROFLEET_SERVICES_COMMON_TRACE_H_

#include <string>
#include <string_view>

namespace zerofleet::services {

// The call metadata that carries a trace id.
inline constexpr char kTraceparent[] = "traceparent";

// 128 random bits as 32 lower-case hexadecimal digits, not all of them 0.
std::string NewTraceId();

// Whether the text is what NewTraceId makes.
bool IsTraceId(std::string_view text);

// The traceparent of a call, with a new span id for it; empty for an empty trace id.
std::string TraceparentOf(const std::string& trace_id);

// The trace id in a traceparent of any version but ff; empty if the text is no traceparent.
std::string TraceIdIn(std::string_view traceparent);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_TRACE_H_
