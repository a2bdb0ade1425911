// What a configuration takes from its tokenizer's file: the size of the vocabulary, and which tokenizer it is.
#ifndef ZEROFLEET_CLI_CONFIG_TOKENIZER_FACTS_H_
#define ZEROFLEET_CLI_CONFIG_TOKENIZER_FACTS_H_

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// Reads the tokenizer that data.tokenizer names or, where the key is not given, the one in the checkpoint that the run
// starts from (draft.stored), and sets `draft.tokenizer_vocab` and data.tokenizer_digest. InvalidArgument if it cannot
// be read, is not supported, or does not match a digest that was given.
absl::Status FindTokenizer(ConfigDraft& draft);

// InvalidArgument unless the complete model's vocabulary has room for every id of the tokenizer.
absl::Status CheckVocabulary(const ConfigDraft& draft);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_TOKENIZER_FACTS_H_
