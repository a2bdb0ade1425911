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
  int64_t steps = 20'000'000;  // evaluations, and one for every 64 bytes that they go through
  int64_t output_bytes = int64_t{16} << 20;
};

class Template {
 public:
  // InvalidArgument, "line N: what", for what is no template or not of the subset (jinja_parser.h).
  static absl::StatusOr<Template> Parse(std::string_view source);

  // What it prints with these variables at the time `now`. InvalidArgument, naming the line, for what goes wrong, also
  // if the template itself says so; ResourceExhausted beyond a limit. Any thread.
  absl::StatusOr<std::string> Render(const Value::Dict& variables, std::time_t now, const Limits& limits = {}) const;

 private:
  explicit Template(NodePtr body) : body_(std::move(body)) {}

  NodePtr body_;
};

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_RUN_H_
