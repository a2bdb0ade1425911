// What the bits of results depend on besides the configuration: the same on every rank, or a rank is refused.
//
// A rank that computes with other instructions or libraries, or reads other data, silently gives other bits, and looks
// broken to ranks that compare their numbers. So each rank says in Ready what it computes with, and a view is formed of
// ranks that agree.
#ifndef ZEROFLEET_COORDINATOR_ENVIRONMENT_H_
#define ZEROFLEET_COORDINATOR_ENVIRONMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Names, as workers send them, of the facts for which a message can suggest a remedy.
inline constexpr char kInstructionSet[] = "instruction set", kLibraryInstructionSet[] = "oneDNN's instruction set";
inline constexpr char kTrainingData[] = "training data", kValidationData[] = "validation data";
inline constexpr char kTokensOfText[] = "tokens of text";  // what makes tokens of text besides the tokenizer

// Members whose environment is not the fleet's.
struct Strangers {
  std::vector<MemberId> members;
  std::string text;  // names one of them, its value and the expected one
};

// Compares the members, which must all be ready and have ranks, and keeps the fleet's environment: the last view's if a
// member has it, else the one that most have.
std::optional<Strangers> SettleEnvironment(Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ENVIRONMENT_H_
