// What a user sees during a run: a live bar on a terminal, plain lines elsewhere.
#ifndef ZEROFLEET_CLI_REPORT_PROGRESS_H_
#define ZEROFLEET_CLI_REPORT_PROGRESS_H_

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/clock.h"
#include "cli/report/terminal.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

class Progress {
 public:
  // On a live terminal the last line is rewritten in place, a few times a second. Otherwise a short run gets a line per
  // step and a long one about every 2 seconds, and always for the first and the last step. `out` and `clock` are
  // borrowed.
  Progress(std::ostream& out, const Clock& clock, Terminal terminal = {});

  void Show(const v1::Event& event);

  // Prints a separate line above the bar, wrapped to the terminal's width. The line of an error ("zerofleet: ...") is
  // not wrapped.
  void Note(const std::string& line);

  // Ends the bar's line; from then on only notes are shown.
  void Close();

 private:
  void ShowStart(const v1::StartEvent& start);
  void ShowFailedSave(const v1::SaveFailedEvent& failed);
  void ShowStep(const v1::StepEvent& step);
  // The figures of a step; where `columns` (0: any) cannot hold them all, the least important are left out.
  std::string StepText(const v1::StepEvent& step, int columns) const;
  std::string BarText() const;
  void Redraw();

  std::ostream& out_;
  const Clock& clock_;
  const Terminal terminal_;
  int64_t steps_ = 0, first_step_ = 0;  // the run's last step; steps that were completed before it started
  double started_ = 0, shown_ = 0;      // monotonic seconds
  double failed_save_shown_ = 0;        // monotonic seconds of the last failed save that was shown
  double step_seconds_ = 0;             // a running mean, for the time left
  v1::StepEvent step_;                  // the one that the bar shows
  bool line_drawn_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_PROGRESS_H_
