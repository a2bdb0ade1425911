// Text that is shown until one of several texts occurs in it.
#ifndef ZEROFLEET_CLI_COMMANDS_STOP_TEXTS_H_
#define ZEROFLEET_CLI_COMMANDS_STOP_TEXTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace zerofleet::cli {

class StopTexts {
 public:
  // None of `stops` is empty.
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What can be shown once `text` has arrived: what may begin one of the texts is held back. Nothing after `stopped`.
  std::string Add(std::string_view text);
  // What was held back, if none of the texts came.
  std::string Finish();
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_STOP_TEXTS_H_
