// Exports a committed checkpoint to a GGUF file, for llama.cpp and its relatives.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_EXPORT_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {

// Writes `path` from the committed checkpoint `step_dir`, every byte of which is checked on the way: matrices as
// `dtype`, norms and biases in fp32, and the tokenizer if the checkpoint carries one. Memory does not grow with the
// model. InvalidArgument for a model that is not of the Llama family, or a tokenizer that GGUF has no name for
// (gguf_tokenizer.h); FailedPrecondition if `path` exists.
absl::Status ExportGguf(const std::string& step_dir, const std::string& path, device::DType dtype,
                        WeightsOf which = WeightsOf::kStep);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_EXPORT_H_
