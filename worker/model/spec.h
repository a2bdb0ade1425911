// A model as data: one ordered table of tensors that drives sizes, pointers, initialisation, decay, sharding, export.
//
// Table order is the order of the flat space. Names are Hugging Face's; Linear weights are (out, in). A family has a
// function that appends its rows (gpt2_spec.cc is the example); families.h lists the families.
#ifndef ZEROFLEET_WORKER_MODEL_SPEC_H_
#define ZEROFLEET_WORKER_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

enum class Init : uint8_t {
  kNormal,              // N(0, 0.02)
  kResidualProjection,  // N(0, 0.02 / sqrt(2 * layers)): what writes to the residual stream
  kOnes,
  kZeros,
};

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  int unit;
  bool decay;  // weight decay applies
  Init init;
  int64_t flat_begin, flat_end;
  int64_t elements() const { return flat_end - flat_begin; }
};

class ModelSpec {
 public:
  // By the family's row (families.cc). InvalidArgument for a family this version lacks or sizes that overflow.
  static absl::StatusOr<ModelSpec> Create(const v1::ModelConfig& config);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::vector<coordinator::UnitExtent>& units() const { return units_; }
  int64_t parameters() const { return tensors_.back().flat_end; }

  // Model FLOPs of training on one token, forward and backward, as the family counts them.
  double FlopsPerToken() const { return flops_per_token_; }

  // The deviation of the normal distribution `init` draws from; only for the two normal kinds.
  double Deviation(Init init) const;

  // Used by the families' spec functions: units in order, tensors in order within the last unit.
  void AddUnit(std::string name);
  void AddTensor(std::string name, std::vector<int64_t> shape, bool decay, Init init);

 private:
  ModelSpec() = default;

  std::vector<TensorSpec> tensors_;
  std::vector<coordinator::UnitExtent> units_;
  int64_t layers_ = 0;
  double flops_per_token_ = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_SPEC_H_
