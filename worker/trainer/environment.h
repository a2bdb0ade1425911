// What the bits of a rank's results depend on besides the configuration, which the fleet compares
// (coordinator/environment.h).
#ifndef ZEROFLEET_WORKER_TRAINER_ENVIRONMENT_H_
#define ZEROFLEET_WORKER_TRAINER_ENVIRONMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::trainer {

using Environment = google::protobuf::RepeatedPtrField<v1::Fact>;

// What a rank computes with: the device's facts, and the digest of what its ops in `dtype` make of numbers that are the
// same everywhere. Takes some milliseconds and, meanwhile, 2 MiB of the device's memory and attention's scratch.
// Returns the device's errors.
absl::StatusOr<Environment> ArithmeticOf(device::Device& device, device::DType dtype);

// What a rank reads, without paths: the same data may lie elsewhere on another rank.
Environment DataOf(const v1::DataFingerprint& data);

// How `now` differs from the environment that a checkpoint was computed in, such as "instruction set AVX2, was AVX3";
// empty if it does not differ, or `before` does not say.
std::string ChangesSince(const Environment& before, const Environment& now);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_ENVIRONMENT_H_
