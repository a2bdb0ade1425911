// The tensors of a model that another program has stored, found by our names and read as fp32.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_SOURCE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_SOURCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace zerofleet::checkpoint {

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Names of all tensors, without the family's prefix.
  virtual std::vector<std::string> Names() const = 0;
  virtual bool Has(const std::string& name) const = 0;

  // DataLoss, naming file and tensor, if the tensor is missing, has another shape, or a type that is not supported. A
  // tensor that passes is no larger than its file allows, so that memory for it may be allocated.
  virtual absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const = 0;

  // Does Check, and fills `into` with the tensor converted to fp32; DataLoss for values that are not finite.
  virtual absl::Status Read(const std::string& name, const std::vector<int64_t>& shape,
                            std::span<float> into) const = 0;
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_WEIGHT_SOURCE_H_
