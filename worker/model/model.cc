// Which families exist; see model.h.
#include "worker/model/model.h"

#include "absl/strings/str_cat.h"
#include "worker/model/gpt2.h"

namespace zerofleet {

std::vector<int> UsedUnits(const std::vector<UnitEvent>& events) {
  std::vector<int> units;
  for (const UnitEvent& event : events) {
    if (event.kind == UnitEvent::kAcquire) units.push_back(event.unit);
  }
  return units;
}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(const v1::ModelConfig& config, DType dtype, Device& device,
                                                     int64_t sequences, int64_t time) {
  if (config.family() == "gpt2") return std::make_unique<Gpt2>(config, dtype, device, sequences, time);
  return absl::InvalidArgumentError(absl::StrCat("model.family is '", config.family(), "'; this version trains gpt2"));
}

}  // namespace zerofleet
