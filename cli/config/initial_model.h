// The model of a run with init_from: read from what the run starts from, so that it need not be typed.
//
// That is the run's own newest checkpoint where it has one, so that what init_from names is not needed any more, and
// init_from otherwise. What is typed all the same must agree with it.
#ifndef ZEROFLEET_CLI_CONFIG_INITIAL_MODEL_H_
#define ZEROFLEET_CLI_CONFIG_INITIAL_MODEL_H_

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// Sets `draft.stored` if the draft has init_from; the only part of a configuration's check that reads other files.
// InvalidArgument if init_from is no step directory, saying what would be; DataLoss if its manifest is damaged.
absl::Status FindStoredModel(ConfigDraft& draft);

// InvalidArgument, naming key and both values, unless the complete model is the stored one. The context may be
// shorter: a position table's first rows are a table.
absl::Status CheckStoredModel(const ConfigDraft& draft);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_INITIAL_MODEL_H_
