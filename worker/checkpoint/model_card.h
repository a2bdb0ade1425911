// The README.md of an exported model: what it is and how it was trained, as its checkpoint says.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_MODEL_CARD_H_
#define ZEROFLEET_WORKER_CHECKPOINT_MODEL_CARD_H_

#include <string>

#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

inline constexpr char kModelCardName[] = "README.md";

// A model card as Hugging Face's hub shows one: a head in YAML, then Markdown. `dtype` is what the weights are written
// in. Files are named without their directories.
std::string ModelCardText(const v1::CheckpointManifest& manifest, const model::ModelSpec& spec, device::DType dtype,
                          WeightsOf which = WeightsOf::kStep);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MODEL_CARD_H_
