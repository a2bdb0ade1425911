// The model of a run with init_from: read from the checkpoint that the run starts from, so that it need not be typed.
//
// That checkpoint is the run's own newest one where there is one, so that the directory in init_from is no longer
// needed; otherwise it is the one in init_from. Model keys that are given all the same must agree with it.
#ifndef ZEROFLEET_CLI_CONFIG_INITIAL_MODEL_H_
#define ZEROFLEET_CLI_CONFIG_INITIAL_MODEL_H_

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// Sets `draft.stored` if the draft has init_from. InvalidArgument if init_from is no step directory, with advice on
// what to name instead; DataLoss if its manifest is damaged.
absl::Status FindStoredModel(ConfigDraft& draft);

// InvalidArgument, naming the key and both values, unless the complete model is the stored one. The context may be
// shorter: the first rows of a position table are themselves a position table.
absl::Status CheckStoredModel(const ConfigDraft& draft);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_INITIAL_MODEL_H_
