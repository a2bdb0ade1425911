// How far text has been tokenized: one line that is rewritten on a terminal, a line now and then elsewhere.
#ifndef ZEROFLEET_CLI_REPORT_TEXT_PROGRESS_H_
#define ZEROFLEET_CLI_REPORT_TEXT_PROGRESS_H_

#include <iosfwd>
#include <string>

#include "base/clock.h"
#include "cli/report/terminal.h"

namespace zerofleet::cli {

class TextProgress {
 public:
  TextProgress(std::ostream& out, const Terminal& terminal, const Clock& clock);
  ~TextProgress();  // removes the line from a live terminal
  TextProgress(const TextProgress&) = delete;
  TextProgress& operator=(const TextProgress&) = delete;

  // Reports that the fraction `part` of the file at `path` has been read. Shows nothing for files that take only a
  // moment.
  void Show(const std::string& path, double part);

 private:
  std::ostream& out_;
  const Terminal& terminal_;
  const Clock& clock_;
  double last_;
  bool shown_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TEXT_PROGRESS_H_
