// Runs as text for a terminal, and as one page.
#ifndef ZEROFLEET_CLI_REPORT_RUN_TEXT_H_
#define ZEROFLEET_CLI_REPORT_RUN_TEXT_H_

#include <string>
#include <vector>

#include "cli/report/run_file.h"
#include "cli/report/terminal.h"

namespace zerofleet::cli {

// Figures of each run, and its curves as lines of characters; with `compare`, what differs from the first one.
std::string RunsText(const std::vector<RunFile>& runs, bool compare, const Terminal& terminal);

// The same as a page of one file, without scripts, that fetches nothing: curves of all runs together, memory,
// collectives, a time line of recoveries and checkpoints, differing keys.
std::string RunsPage(const std::vector<RunFile>& runs);

// --- What both say.

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
