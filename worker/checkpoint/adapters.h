// Low-rank adapters of a checkpoint, to and from PEFT's directories.
//
// A directory of PEFT's holds adapter_config.json and adapter_model.safetensors, whose tensors have our names behind
// "base_model.model.". A checkpoint of adapters holds them alone, and names the base that has the rest
// (CheckpointManifest::base_xxh3_128).
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

// Writes `out_dir` as PEFT reads it: the adapters alone, of `dtype`. InvalidArgument if the checkpoint has none,
// FailedPrecondition if one of the files is there already.
absl::Status ExportAdapters(const std::string& step_dir, const std::string& out_dir,
                            device::DType dtype = device::DType::kF32, WeightsOf which = WeightsOf::kStep);

// Writes `step_dir` as a committed checkpoint at step 0 of the adapters in `adapter_dir`, whose base is the committed
// checkpoint `base_dir`. DataLoss or InvalidArgument, naming what of PEFT's configuration this version cannot train.
absl::Status ImportAdapters(const std::string& adapter_dir, const std::string& base_dir, const std::string& step_dir,
                            const ImportStamp& stamp);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_ADAPTERS_H_
