// The model's tensor table in a checkpoint's manifest, and the check that a checkpoint is of this model.
#ifndef ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_
#define ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_

#include <string>

#include "absl/status/status.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet {

void SetTensorTable(const ModelSpec& spec, v1::CheckpointManifest* manifest);

// FailedPrecondition, naming the first tensor that differs, unless the manifest's table is the model's.
absl::Status CheckTensorTable(const ModelSpec& spec, const v1::CheckpointManifest& manifest, const std::string& step_dir);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_
