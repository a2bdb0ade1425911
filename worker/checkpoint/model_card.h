// The README.md of an exported model: what it is and how it was trained, according to its checkpoint.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_MODEL_CARD_H_
#define ZEROFLEET_WORKER_CHECKPOINT_MODEL_CARD_H_

#include <string>

#include "worker/checkpoint/weights_of.h"
#include "worker/device/dtype.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

inline constexpr char kModelCardName[] = "README.md";

// A model card in the form that Hugging Face's hub shows: a YAML header, then Markdown. `dtype` is the type in which
// the weights are written. Files are named without their directories.
std::string ModelCardText(const v1::CheckpointManifest& manifest, const model::ModelSpec& spec, device::DType dtype,
                          WeightsOf which = WeightsOf::kStep);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MODEL_CARD_H_
