// Passes on text until one of several stop texts occurs in it.
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

  // The text that can be shown once `text` has arrived; an end that may begin a stop text is held back. Empty once
  // `stopped`.
  std::string Add(std::string_view text);
  // The text that was held back, if no stop text has followed.
  std::string Finish();
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_STOP_TEXTS_H_
