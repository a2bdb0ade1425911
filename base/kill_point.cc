// Counts passings and kills the process; see kill_point.h. Compiled in tests' builds only.
#include "base/kill_point.h"

#ifdef ZEROFLEET_KILL_POINTS
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace zerofleet {
namespace {

struct Order {
  std::string name, mark;
  int passing = 1;
};

Order OrderOfTheEnvironment() {
  Order order;
  const char* const at = std::getenv("ZEROFLEET_KILL_AT");
  const char* const mark = std::getenv("ZEROFLEET_KILL_MARK");
  if (at == nullptr || mark == nullptr) return order;
  const std::pair<std::string, std::string> parts = absl::StrSplit(at, absl::MaxSplits(':', 1));
  order.name = parts.first;
  order.mark = mark;
  if (!absl::SimpleAtoi(parts.second, &order.passing)) order.passing = 1;
  return order;
}

}  // namespace

void PassKillPoint(const char* name, const std::string& file) {
  static const Order order = OrderOfTheEnvironment();
  static std::atomic<int> passings = 0;
  if (order.name.empty()) return;
  const std::string here =
      file.empty() ? name : absl::StrCat(name, "@", std::filesystem::path(file).filename().string());
  if (here != order.name || ++passings != order.passing) return;
  // Only one of the processes that come here makes this file.
  const int mark = open(order.mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (mark < 0) return;
  close(mark);
  kill(getpid(), SIGKILL);
  pause();  // other threads may run on for a moment, this one does not
}

}  // namespace zerofleet
#endif
