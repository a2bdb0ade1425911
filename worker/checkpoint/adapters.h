// Exports a checkpoint's low-rank adapters to PEFT's directories, and imports them.
//
// A PEFT directory holds adapter_config.json and adapter_model.safetensors, whose tensors have our names behind the
// prefix "base_model.model.". A checkpoint of adapters holds only the adapters, and names the base that has the other
// weights (CheckpointManifest::base_xxh3_128).
#ifndef ZEROFLEET_WORKER_CHECKPOINT_ADAPTERS_H_
#define ZEROFLEET_WORKER_CHECKPOINT_ADAPTERS_H_

#include <string>

#include "absl/status/status.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"

namespace zerofleet::checkpoint {

inline constexpr char kAdapterWeightsName[] = "adapter_model.safetensors";
inline constexpr char kAdapterConfigName[] = "adapter_config.json";

// Writes `out_dir` in the form that PEFT reads, with the adapters alone, as `dtype`. InvalidArgument if the checkpoint
// has none; FailedPrecondition if one of the files exists.
absl::Status ExportAdapters(const std::string& step_dir, const std::string& out_dir,
                            device::DType dtype = device::DType::kF32, WeightsOf which = WeightsOf::kStep);

// Writes the adapters in `adapter_dir` as the committed checkpoint `step_dir` at step 0. Their base is the committed
// checkpoint `base_dir`. DataLoss or InvalidArgument, naming the setting in PEFT's configuration that this version
// cannot train.
absl::Status ImportAdapters(const std::string& adapter_dir, const std::string& base_dir, const std::string& step_dir,
                            const ImportStamp& stamp);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_ADAPTERS_H_
