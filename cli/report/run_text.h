// Runs as text for a terminal, and as one page.
#ifndef ZEROFLEET_CLI_REPORT_RUN_TEXT_H_
#define ZEROFLEET_CLI_REPORT_RUN_TEXT_H_

#include <string>
#include <vector>

#include "cli/report/run_file.h"
#include "cli/report/terminal.h"

namespace zerofleet::cli {

// Figures of each run, and its curves as lines of characters; with `compare`, also what differs from the first run.
std::string RunsText(const std::vector<RunFile>& runs, bool compare, const Terminal& terminal);

// The runs as a self-contained HTML page without scripts: the curves of all runs together, memory, collectives, a time
// line of recoveries and checkpoints, and the keys that differ.
std::string RunsPage(const std::vector<RunFile>& runs);

// --- Used by both, text and page.

struct RunFigure {
  std::string name, value;
};
std::vector<RunFigure> FiguresOf(const RunFile& run);

// A series over the steps; `name` is its heading.
struct RunSeries {
  const char* name;
  double ReportedStep::*value;
};
const std::vector<RunSeries>& AllRunSeries();

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_TEXT_H_
