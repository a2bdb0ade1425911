// The model's tensor table in a checkpoint's manifest.
#ifndef ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_
#define ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_

#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::trainer {

void SetTensorTable(const model::ModelSpec& spec, v1::CheckpointManifest* manifest);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_TENSOR_TABLE_H_
