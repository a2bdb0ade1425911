// Exports checkpoints to the directories that Hugging Face's transformers reads, and imports them.
//
// A directory holds config.json and model.safetensors (or shards listed by model.safetensors.index.json). Tensor names
// are ours already; some matrices are stored (in, out) there and (out, in) here. A tied head is not stored. What
// differs between families is in their rows (worker/model/family.h).
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

// Writes `out_dir`/model.safetensors as `dtype`, config.json and a model card (model_card.h) from the committed
// checkpoint `step_dir`, every byte of which is checked on the way, and its tokenizer if it carries one.
// FailedPrecondition if any of these files exists. For a PyTorch module there is no card, and config.json is written
// only if it was recorded. Memory does not grow with the model (weight_file.h).
absl::Status ExportHuggingFace(const std::string& step_dir, const std::string& out_dir,
                               device::DType dtype = device::DType::kF32, WeightsOf which = WeightsOf::kStep);

// What an import records besides the weights.
struct ImportStamp {
  std::string writer_version;
  int64_t committed_unix_seconds;
};

// Writes the committed checkpoint `step_dir` at step 0, in one rank's file, from a Hugging Face directory or a GGUF
// file (gguf_source.h) `from`, with the tokenizer that is there. Every state but the weights is zero. `defaults` is a
// complete configuration, whose model is replaced by the one found; or that of a PyTorch module
// (worker/model/foreign.h), whose parameters `from` must have under their own names. Accepts names with or without the
// family's prefix, and tensors of F32, BF16 or F16, in GGUF also quantized ones. If the model is tied, a head must
// equal the token embedding. Buffers are left out. DataLoss, naming file and tensor, for anything missing, unknown or
// of another shape; InvalidArgument for a model that this version cannot train; FailedPrecondition if `step_dir` is
// already committed.
absl::Status ImportModel(const std::string& from, const std::string& step_dir, const v1::Config& defaults,
                         const ImportStamp& stamp);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_H_
