// Compares another trainer's step with ours, tensor by tensor: what `zerofleet doctor` reads, and what it finds.
#ifndef ZEROFLEET_CLI_COMMANDS_DOCTOR_H_
#define ZEROFLEET_CLI_COMMANDS_DOCTOR_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/inference/one_step.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// Reads input_ids (B, T) and labels (B, T), I64 or I32. As in transformers, a label is the target of the position
// before it, and -100 is not counted. Without labels, the ids are the labels. DataLoss naming the file.
absl::StatusOr<inference::StepBatch> ReadStepBatch(const std::string& path);

// How far `theirs` is from `ours`.
struct Deviation {
  double difference = 0, norm = 0;  // L2 norms, of theirs - ours and of ours
  int64_t element = 0;              // index of the element that differs most
  float ours = 0, theirs = 0;       // the values of that element
  // `factor` * ours is the multiple of ours that is closest to theirs; if `rest` is small, theirs is that multiple.
  double factor = 1, rest = 0;  // rest: the L2 norm of theirs - factor * ours
};
Deviation DeviationOf(std::span<const float> ours, std::span<const float> theirs);

// "is 2 times ours", or that it differs most at `place`.
std::string DeviationText(const Deviation& deviation, const std::string& place);

struct DoctorInput {
  std::string checkpoint, batch, expect, state;  // paths; an empty `state` means the optimizer's first update
  v1::OptimizerConfig optimizer;
  bool decays_all = false;
  double tolerance = 1e-4;
};

// What was found for one kind of number, such as the gradients.
struct DoctorFinding {
  std::string what;
  int64_t compared = 0, beyond = 0;  // numbers of tensors: compared, and beyond the tolerance
  double largest = 0;                // the largest relative difference
  std::string largest_name;
  std::string first;  // what is wrong with the first tensor beyond the tolerance; empty if there is none
};

// Findings in the order in which a step computes the numbers: loss, gradients from the head down, their norm, the
// optimizer's states, the updated weights. Each kind is computed from the other trainer's values of the preceding
// kinds, where the file has them, so that one fault gives one finding. Kinds that the file does not have are left out.
absl::StatusOr<std::vector<DoctorFinding>> Examine(const DoctorInput& input, device::Device& device);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_DOCTOR_H_
