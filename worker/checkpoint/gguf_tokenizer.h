// A GGUF file's tokenizer as the files of a Hugging Face folder.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_

#include "absl/status/statusor.h"
#include "worker/checkpoint/gguf.h"
#include "worker/checkpoint/tokenizer_files.h"

namespace zerofleet::checkpoint {

// Byte-level BPE (tokenizer.ggml.model gpt2) that splits as GPT-2, Llama 3, Qwen 2 or SmolLM; none of other models and
// splits, whose weights are of use all the same. DataLoss for lists that do not fit each other.
absl::StatusOr<TokenizerFiles> GgufTokenizer(const GgufFile& file);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_TOKENIZER_H_
