// Steps and evaluations of runs as comma-separated values (RFC 4180), for spreadsheets and data frames.
#ifndef ZEROFLEET_CLI_REPORT_CSV_H_
#define ZEROFLEET_CLI_REPORT_CSV_H_

#include <span>
#include <string>

#include "cli/report/run_file.h"

namespace zerofleet::cli {

// A header, then a line for each step of each run and one for each evaluation: the latter's `kind` is `evaluation`, and
// its `set` the name of the validation set, empty for all. What a line does not have is empty. Numbers read back
// exactly.
std::string RunsCsv(std::span<const RunFile> runs);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_CSV_H_
