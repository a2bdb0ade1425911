// Another trainer's step held to ours, tensor by tensor: what `zerofleet doctor` reads, and what it finds.
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

// input_ids (B, T), and labels (B, T) of which -100 does not count, both of I64 or I32; a label is the target of the
// position before it, as transformers has it. Without labels, the ids are their own. DataLoss naming the file.
absl::StatusOr<inference::StepBatch> ReadStepBatch(const std::string& path);

// How far `theirs` is from `ours`.
struct Deviation {
  double difference = 0, norm = 0;  // L2 norms, of theirs - ours and of ours
  int64_t element = 0;              // where they differ most
  float ours = 0, theirs = 0;       // there
  // What ours times `factor` has in common with theirs: with a small `rest`, theirs is that multiple.
  double factor = 1, rest = 0;  // rest: the L2 norm of theirs - factor * ours
};
Deviation DeviationOf(std::span<const float> ours, std::span<const float> theirs);

// "is 2 times ours", or that it differs most at `place`.
std::string DeviationText(const Deviation& deviation, const std::string& place);

struct DoctorInput {
  std::string checkpoint, batch, expect, state;  // paths; no state: it is the optimizer's first update
  v1::OptimizerConfig optimizer;
  bool decays_all = false;
  double tolerance = 1e-4;
};

// One kind of number, such as the gradients.
struct DoctorFinding {
  std::string what;
  int64_t compared = 0, beyond = 0;  // tensors
  double largest = 0;                // difference, as a part of what it is compared with
  std::string largest_name;
  std::string first;  // what is wrong with the first one beyond the tolerance; empty: none is
};

// In the order in which a step makes the numbers: loss, gradients from the head down, their norm, the optimizer's
// states, the updated weights. Each is computed from what the other trainer says of the ones before it, where it does,
// so that one fault is one finding. Kinds of which the file says nothing are left out.
absl::StatusOr<std::vector<DoctorFinding>> Examine(const DoctorInput& input, device::Device& device);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_DOCTOR_H_
