// Chat templates run on values, with bounded steps, memory and output.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_RUN_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_RUN_H_

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker/text/jinja_parser.h"
#include "worker/text/jinja_value.h"

namespace zerofleet::text::jinja {

struct Limits {
  int64_t steps = 20'000'000;  // evaluations, plus one for every 64 bytes that they go through
  int64_t output_bytes = int64_t{16} << 20;
};

class Template {
 public:
  // InvalidArgument, "line N: what", for text that is not a template or not in the subset (jinja_parser.h).
  static absl::StatusOr<Template> Parse(std::string_view source);

  // Returns what the template prints with these variables at the time `now`. InvalidArgument, naming the line, for any
  // error, also one that the template itself raises; ResourceExhausted beyond a limit. Callable from any thread.
  absl::StatusOr<std::string> Render(const Value::Dict& variables, std::time_t now, const Limits& limits = {}) const;

 private:
  explicit Template(NodePtr body) : body_(std::move(body)) {}

  NodePtr body_;
};

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_RUN_H_
