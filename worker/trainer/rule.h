// A rule about settings that go together: a row of the table in rules.h.
#ifndef ZEROFLEET_WORKER_TRAINER_RULE_H_
#define ZEROFLEET_WORKER_TRAINER_RULE_H_

#include <string>
#include <vector>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

struct Rule {
  std::vector<const char*> keys;  // the first is the one to change and to name in messages
  bool (*violated)(const v1::Config& config);
  std::string (*message)(const v1::Config& config);  // what would be right, and why
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RULE_H_
