// The model's tensor table in a checkpoint's manifest.
#ifndef ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_
#define ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_

#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet {

void SetTensorTable(const ModelSpec& spec, v1::CheckpointManifest* manifest);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_
