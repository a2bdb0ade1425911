// GPT-2's row in the table of families.
#ifndef ZEROFLEET_WORKER_MODEL_FAMILIES_GPT2_H_
#define ZEROFLEET_WORKER_MODEL_FAMILIES_GPT2_H_

#include "worker/model/family.h"

namespace zerofleet::model {

extern const ModelFamily kGpt2Family;

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FAMILIES_GPT2_H_
