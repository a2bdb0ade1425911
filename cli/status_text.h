// A fleet's status as a person reads it.
#ifndef ZEROFLEET_CLI_STATUS_TEXT_H_
#define ZEROFLEET_CLI_STATUS_TEXT_H_

#include <string>

#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet {

// A line on the run and a table of members: rank, host, state, step, heartbeat age, the collective it is in.
std::string StatusText(const v1::GetStatusResponse& status);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_STATUS_TEXT_H_
