// llama.cpp's names for the tensors of the Llama family.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_NAMES_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_NAMES_H_

#include <string>

namespace zerofleet::checkpoint {

// "blk.3.attn_q.weight" -> "layers.3.self_attn.q_proj.weight", without the family's prefix; an unknown name stays as it
// is.
std::string NameFromGguf(const std::string& theirs);
// The reverse of NameFromGguf.
std::string NameForGguf(const std::string& ours);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_NAMES_H_
