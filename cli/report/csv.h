// Steps and evaluations of runs as comma-separated values (RFC 4180), for spreadsheets and data frames.
#ifndef ZEROFLEET_CLI_REPORT_CSV_H_
#define ZEROFLEET_CLI_REPORT_CSV_H_

#include <span>
#include <string>

#include "cli/report/run_file.h"

namespace zerofleet::cli {

// A header, then a line for each step and each evaluation of each run. An evaluation's `kind` is `evaluation`, and its
// `set` the name of the validation set, empty for the loss over all sets. Fields without a value are empty. Numbers
// read back exactly.
std::string RunsCsv(std::span<const RunFile> runs);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_CSV_H_
