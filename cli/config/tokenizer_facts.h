// What a configuration takes from its tokenizer's file: the size of the vocabulary, and which tokenizer it is.
#ifndef ZEROFLEET_CLI_CONFIG_TOKENIZER_FACTS_H_
#define ZEROFLEET_CLI_CONFIG_TOKENIZER_FACTS_H_

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// Reads the tokenizer that data.tokenizer names, or that what the run starts from carries (draft.stored): sets
// `draft.tokenizer_vocab` and data.tokenizer_digest. InvalidArgument if it cannot be read, is not supported, or is
// another than the digest that was given says.
absl::Status FindTokenizer(ConfigDraft& draft);

// InvalidArgument unless the complete model has an id for each of the tokenizer's.
absl::Status CheckVocabulary(const ConfigDraft& draft);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_TOKENIZER_FACTS_H_
