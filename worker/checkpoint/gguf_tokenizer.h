// Converts a GGUF file's tokenizer to the files of a Hugging Face directory, and the reverse.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_

#include "absl/status/statusor.h"
#include "worker/checkpoint/gguf.h"
#include "worker/checkpoint/tokenizer_files.h"

namespace zerofleet::checkpoint {

// Reads byte-level BPE (tokenizer.ggml.model gpt2) that splits like GPT-2, Llama 3, Qwen 2 or SmolLM. Returns no files
// for other tokenizers, without which the weights are still of use. DataLoss for lists that do not fit each other.
absl::StatusOr<TokenizerFiles> GgufTokenizer(const GgufFile& file);

// The facts that describe, in a file for a model of `vocab` tokens, the tokenizer in `files`, which text::Tokenizer has
// loaded. InvalidArgument for one that splits in another way.
absl::StatusOr<GgufFacts> FactsOfTokenizer(const TokenizerFiles& files, int64_t vocab);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_
