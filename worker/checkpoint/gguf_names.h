// What llama.cpp calls the tensors of a Llama.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_NAMES_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_NAMES_H_

#include <string>

namespace zerofleet::checkpoint {

// "blk.3.attn_q.weight" -> "layers.3.self_attn.q_proj.weight", without the family's prefix; what is not known keeps its
// name.
std::string NameFromGguf(const std::string& theirs);
// The reverse.
std::string NameForGguf(const std::string& ours);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_NAMES_H_
