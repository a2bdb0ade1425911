// What a model keeps from its forward pass to its backward, and what it computes again: activation checkpointing
// (Chen et al. 2016; ZeRO §6.1; Korthikanti et al. 2022 for the selective kind).
#ifndef ZEROFLEET_WORKER_MODEL_CHECKPOINTING_H_
#define ZEROFLEET_WORKER_MODEL_CHECKPOINTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

// The gradients are the same to the bit whatever is chosen.
struct Checkpointing {
  // Blocks from one input that is kept to the next. The backward of such a segment computes its blocks again from that
  // input; the last segment's are still there from the forward. A segment of all blocks computes nothing again.
  int64_t segment = kAllBlocks;
  // Within a block, what is cheap to compute again for its size is not kept: the norms' and GELU's outputs. Attention's
  // scores, which Korthikanti et al. compute again too, are never kept: its backward makes them from logsumexp.
  bool selective = false;
  // The inputs kept: a part of each on every rank of a tensor group (ZeRO §6.1, P_a), and in the host's memory
  // (P_a+cpu). kept_inputs.h does it.
  bool partition = false, offload = false;
  // Bytes of fp32 in a band of a parameter's gradient, where gradients leave in bands (ZeRO §6.2); more where the
  // device's ops cannot cut so finely. The head then keeps its input and what makes the logits' gradient of the logits,
  // which are computed again for the output embedding's. 0: gradients leave a unit at a time.
  int64_t band_bytes = 0;

  // Whether blocks keep their inputs alone, every one or each n-th.
  bool keeps_inputs() const { return segment != kAllBlocks; }

  static constexpr int64_t kAllBlocks = int64_t{1} << 40;
  bool operator==(const Checkpointing&) const = default;
};

// Parses the key activation.checkpointing: "none", "block", "selective" or "{every: n}". InvalidArgument for anything
// else.
absl::StatusOr<Checkpointing> ParseCheckpointing(const std::string& text);

// Reads the sections `activation` and `buffers`, whose keys have been checked. Errors as from ParseCheckpointing.
absl::StatusOr<Checkpointing> CheckpointingOf(const v1::ActivationConfig& activation, const v1::BuffersConfig& buffers);

// The words the key takes; what stands for "{every: n}" comes last.
std::vector<std::string> CheckpointingWords();
inline constexpr const char* kEveryWord = "{every: n}";
std::string EveryText(int64_t blocks);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_CHECKPOINTING_H_
