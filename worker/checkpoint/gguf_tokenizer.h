// A GGUF file's tokenizer as the files of a Hugging Face folder, and the reverse.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_

#include "absl/status/statusor.h"
#include "worker/checkpoint/gguf.h"
#include "worker/checkpoint/tokenizer_files.h"

namespace zerofleet::checkpoint {

// Byte-level BPE (tokenizer.ggml.model gpt2) that splits as GPT-2, Llama 3, Qwen 2 or SmolLM; none of other models and
// splits, whose weights are of use all the same. DataLoss for lists that do not fit each other.
absl::StatusOr<TokenizerFiles> GgufTokenizer(const GgufFile& file);

// What a file for a model of `vocab` tokens says of the tokenizer that `files`, which text::Tokenizer has loaded, make.
// InvalidArgument for one that splits in another way.
absl::StatusOr<GgufFacts> FactsOfTokenizer(const TokenizerFiles& files, int64_t vocab);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_
