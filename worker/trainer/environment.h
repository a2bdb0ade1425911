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

// What it computes with: the device's facts, and the digest of what its ops of `dtype` make of numbers that are the
// same everywhere. Takes some milliseconds, and half a MiB of the device's memory meanwhile. Errors as the device's.
absl::StatusOr<Environment> ArithmeticOf(device::Device& device, device::DType dtype);

// What it reads, without paths: the same data may lie elsewhere.
Environment DataOf(const v1::DataFingerprint& data);

// How `now` differs from the environment that a checkpoint was computed in, such as "instruction set AVX2, was AVX3";
// empty: not at all, or it is not known.
std::string ChangesSince(const Environment& before, const Environment& now);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_ENVIRONMENT_H_
