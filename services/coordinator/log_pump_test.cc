// Lines arrive in order from a thread of their own; what does not fit is counted.
#include "services/coordinator/log_pump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace zerofleet::services {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LogPumpTest, WritesEverythingInOrderBeforeItIsGone) {
  std::vector<std::string> lines;
  std::vector<LogLevel> levels;
  {
    LogPump pump([&](LogLevel level, const std::string& line) {
      lines.push_back(line);
      levels.push_back(level);
    });
    pump.Push(LogLevel::kInfo, "a");
    pump.Push(LogLevel::kDebug, "b");
  }
  EXPECT_THAT(lines, ElementsAre("a", "b"));
  EXPECT_THAT(levels, ElementsAre(LogLevel::kInfo, LogLevel::kDebug));
}

TEST(LogPumpTest, WhoLogsDoesNotWaitAndWhatIsLeftOutIsSaid) {
  std::vector<std::string> lines;
  absl::Notification inside, go_on;
  {
    LogPump pump(
        [&](LogLevel, const std::string& line) {
          if (lines.empty()) {
            inside.Notify();
            go_on.WaitForNotification();
          }
          lines.push_back(line);
        },
        /*most_queued=*/3);
    pump.Push(LogLevel::kInfo, "first");
    inside.WaitForNotification();  // the disk hangs
    for (int i = 0; i < 10; ++i) pump.Push(LogLevel::kInfo, absl::StrCat(i));
    go_on.Notify();
  }
  EXPECT_THAT(lines, ElementsAre("first", "0", "1", "2", HasSubstr("7 lines were left out")));
}

}  // namespace
}  // namespace zerofleet::services
