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
  // Number of blocks from one kept input to the next. The backward computes the blocks of such a segment again from
  // that input; the last segment's activations are still there from the forward. With one segment for all blocks
  // nothing is computed again.
  int64_t segment = kAllBlocks;
  // Within a block, activations that are cheap to recompute for their size are not kept: the outputs of the norms and
  // of GELU. Attention's scores, which Korthikanti et al. recompute too, are never kept: its backward makes them from
  // logsumexp.
  bool selective = false;
  // How inputs are kept (kept_inputs.h): `partition` leaves a part of each on every rank of a tensor group (ZeRO §6.1,
  // P_a), `offload` keeps them in host memory (P_a+cpu).
  bool partition = false, offload = false;
  // Bytes of a band of a parameter's fp32 gradient, where gradients leave in bands (ZeRO §6.2); bands are larger where
  // the device's ops cannot cut as finely. The head then keeps its input and what turns logits into their gradient; the
  // logits are computed again for the gradient of the output embedding. 0: gradients leave a unit at a time.
  int64_t band_bytes = 0;

  // Whether only the inputs of blocks are kept, of every block or of each n-th.
  bool keeps_inputs() const { return segment != kAllBlocks; }

  static constexpr int64_t kAllBlocks = int64_t{1} << 40;
  bool operator==(const Checkpointing&) const = default;
};

// Parses the key activation.checkpointing: "none", "block", "selective" or "{every: n}". InvalidArgument for anything
// else.
absl::StatusOr<Checkpointing> ParseCheckpointing(const std::string& text);

// Reads the sections `activation` and `buffers`, whose keys have been checked. Errors as from ParseCheckpointing.
absl::StatusOr<Checkpointing> CheckpointingOf(const v1::ActivationConfig& activation, const v1::BuffersConfig& buffers);

// The words that the key takes; the one for "{every: n}" comes last.
std::vector<std::string> CheckpointingWords();
inline constexpr const char* kEveryWord = "{every: n}";
std::string EveryText(int64_t blocks);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_CHECKPOINTING_H_
