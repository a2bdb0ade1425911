// Llama's row in the table of families.
#ifndef ZEROFLEET_WORKER_MODEL_FAMILIES_LLAMA_H_
#define ZEROFLEET_WORKER_MODEL_FAMILIES_LLAMA_H_

#include "worker/model/family.h"

namespace zerofleet::model {

extern const ModelFamily kLlamaFamily;

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FAMILIES_LLAMA_H_
