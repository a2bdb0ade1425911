// A fleet's status as readable text.
#ifndef ZEROFLEET_CLI_STATUS_TEXT_H_
#define ZEROFLEET_CLI_STATUS_TEXT_H_

#include <string>

#include "cli/terminal.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet {

// A line on the run and a table of members: rank, host, state, step, heartbeat age, the collective it is in. No line is
// wider than the terminal unless a single word is.
std::string StatusText(const v1::GetStatusResponse& status, const Terminal& terminal = {});

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_STATUS_TEXT_H_
