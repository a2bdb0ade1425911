// See start_retry.h.
#include "cli/launcher/start_retry.h"

namespace zerofleet::cli {

bool StartRetry::Failed(double now, double limit_seconds) {
  if (!waiting()) since_ = now;
  due_ = now + kPauseSeconds;
  return now - since_ <= limit_seconds;
}

}  // namespace zerofleet::cli
