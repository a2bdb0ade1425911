// A model as data: one ordered table of tensors that drives sizes, pointers, initialisation, decay, sharding, export.
//
// Table order is the order of the flat space. Names are Hugging Face's; weights of products are (out, in). The table is
// what the layers of a family's rows declare (declared_units.h); families.h lists the families.
//
// The ranks of a tensor group share a model: each has a part of it, with a table and a flat space of its own, in which
// each tensor has the shape of that part's share. The parts' tables differ only in where their elements are in the
// whole model (part.h, ToWhole).
#ifndef ZEROFLEET_WORKER_MODEL_SPEC_H_
#define ZEROFLEET_WORKER_MODEL_SPEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "worker/model/declaration.h"
#include "worker/model/part.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

struct PassScript;  // script.h

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // in this part
  int unit;
  bool decay;  // weight decay applies
  Init init;
  int64_t flat_begin, flat_end;
  int64_t elements() const { return flat_end - flat_begin; }

  // Place and shape in the whole model; the same as above where there is one part.
  int64_t whole_begin;
  std::vector<int64_t> whole_shape;
  Cut cut;
  bool projects;        // the weight of a block's product
  bool frozen = false;  // no update changes it
  // The bytes of a foreign model's buffer (foreign.h), which are no weights: the step's sum of their gradients, which
  // is neither scaled nor counted in a norm, is their new value.
  bool assigned = false;
};

enum class UnitKind : uint8_t { kEmbedding, kBlock, kHead, kAdapters };

// InvalidArgument, saying what would fit, if a model of these sizes cannot be divided into `parts` parts.
absl::Status CheckParts(const v1::ModelConfig& config, int64_t parts);
// InvalidArgument if sequences of `time` tokens, whose residual stream is divided among the ranks of a tensor group,
// cannot be divided into `parts` parts.
absl::Status CheckSequences(int64_t time, int64_t parts);

class ModelSpec {
 public:
  // Makes the table from the family's row (families.cc). InvalidArgument for a family that this version lacks, sizes
  // that overflow, and sizes that cannot be divided into so many parts, saying what would fit.
  static absl::StatusOr<ModelSpec> Create(const v1::ModelConfig& config, const ModelPart& part = {});

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::vector<coordinator::UnitExtent>& units() const { return units_; }
  int64_t parameters() const { return tensors_.back().flat_end; }
  // Parameters of units that are not frozen.
  int64_t trained_parameters() const;
  // The kind of each unit. Units of one kind are neighbours, and equal in shape.
  const std::vector<UnitKind>& unit_kinds() const { return unit_kinds_; }
  // The number of units that a pass goes through in the order of the forward; they come first.
  int passed_units() const { return passed_units_; }
  // The passed unit in whose backward this unit's gradient is made: for a block's adapters, the block.
  int PassedWith(int unit) const { return unit < passed_units_ ? unit : unit - passed_units_ + 1; }
  // The first passed unit that the backward must reach: the units before it are frozen, and need no gradient of their
  // outputs.
  int FirstTrained() const;
  // Parameters of the whole model without its adapters, which come last.
  int64_t whole_base_parameters() const { return whole_base_parameters_; }
  // The unit whose backward is the first to add to this one's gradient: the unit itself, except for an embedding that
  // also makes the logits.
  int FirstGradientOf(int unit) const;
  // The script of a foreign model's passes (foreign.h), whose units are of one kind and may differ in shape; null for
  // any other model.
  const PassScript* script() const { return script_.get(); }

  // Freezes the tensors whose names match one of `patterns`, with the family's prefix or without; * stands for any
  // characters. A unit all of whose tensors are frozen is frozen (coordinator::UnitExtent). InvalidArgument, naming the
  // pattern, if it matches none, or if nothing is left to train.
  absl::Status Freeze(const std::vector<std::string>& patterns);

  const ModelPart& part() const { return part_; }
  int64_t whole_parameters() const { return whole_parameters_; }
  // `ranges` of this part's flat space as ranges of the whole model's, in the same order, each with the offset that its
  // elements had. Padding is in no range. Ranges that are adjacent in both places are merged.
  std::vector<coordinator::PlacedRange> ToWhole(const std::vector<coordinator::PlacedRange>& ranges) const;

  // Model FLOPs of training the whole model on one token, and the elements that its passes read and write in blocks
  // outside the products (declared_units.h).
  double FlopsPerToken() const { return flops_per_token_; }
  double PointwiseElementsPerToken() const { return pointwise_elements_per_token_; }

  // The standard deviation of `init`'s normal distribution; only for kNormal and kResidualProjection.
  double Deviation(Init init) const;
  // The standard deviation for a tensor; that of kAdapter depends on its shape.
  double Deviation(const TensorSpec& tensor) const;

 private:
  ModelSpec(const ModelPart& part, std::string prefix) : part_(part), prefix_(std::move(prefix)) {}
  static absl::StatusOr<ModelSpec> CreateForeign(const v1::ModelConfig& config, const ModelPart& part);

  // Training FLOPs per token that frozen tensors save: their own gradients, and gradients that nothing needs.
  double FrozenFlopsPerToken(const Declaration& block, int64_t context) const;
  // Adds a unit of adapters for each block, and freezes all other units.
  void AddAdapters(const std::string& prefix, const std::vector<DeclaredTensor>& tensors);
  // Units are added in the order of the table; each tensor is added to the last unit.
  void AddUnit(std::string name, UnitKind kind, const std::string& prefix, const std::vector<DeclaredTensor>& tensors);
  void AddTensor(std::string name, const DeclaredTensor& tensor);

  ModelPart part_;
  std::string prefix_;  // the family's prefix of names
  std::vector<TensorSpec> tensors_;
  std::vector<coordinator::UnitExtent> units_;
  std::vector<UnitKind> unit_kinds_;
  std::shared_ptr<const PassScript> script_;
  bool tied_ = false;
  int passed_units_ = 0;
  int64_t layers_ = 0, whole_parameters_ = 0, whole_base_parameters_ = 0;
  double flops_per_token_ = 0, pointwise_elements_per_token_ = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_SPEC_H_
