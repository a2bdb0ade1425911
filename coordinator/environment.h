// What the bits of results depend on besides the configuration: the same on every rank, or a rank is refused.
//
// A rank that computes with other instructions or libraries, or reads other data, gives other bits in silence, and
// where ranks compare what they compute, looks like one that is broken. So ranks tell with Ready what they compute
// with, and a view is formed of those who agree.
#ifndef ZEROFLEET_COORDINATOR_ENVIRONMENT_H_
#define ZEROFLEET_COORDINATOR_ENVIRONMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Facts whose difference has a remedy, by the names that workers give them.
inline constexpr char kInstructionSet[] = "instruction set", kLibraryInstructionSet[] = "oneDNN's instruction set";
inline constexpr char kTrainingData[] = "training data", kValidationData[] = "validation data";
inline constexpr char kTokensOfText[] = "tokens of text";  // by what they are made beside the tokenizer

// Members whose environment is not the fleet's.
struct Strangers {
  std::vector<MemberId> members;
  std::string text;  // names one of them, what it has and what would be right
};

// Compares the members, all ready and with their ranks, and keeps the environment that is the fleet's: that of the last
// view if any of them has it, else that of most.
std::optional<Strangers> SettleEnvironment(Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ENVIRONMENT_H_
