// A fleet's status as readable text.
#ifndef ZEROFLEET_CLI_REPORT_STATUS_TEXT_H_
#define ZEROFLEET_CLI_REPORT_STATUS_TEXT_H_

#include <string>

#include "cli/report/terminal.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::cli {

// A line about the run and a table of its members: rank, host, state, step, heartbeat age, current collective, and the
// team if there are several. Where the status has a partition, two more tables: the bytes of each state by rank, and
// the elements of each unit by owner; where it has flight records, each rank's last collectives. No line is wider than
// the terminal unless a single word is.
std::string StatusText(const v1::GetStatusResponse& status, const Terminal& terminal = {});

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_STATUS_TEXT_H_
