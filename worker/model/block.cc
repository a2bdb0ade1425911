// Layers from rows, forward and in reverse; see block.h.
#include "worker/model/block.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "worker/model/layers/activate.h"
#include "worker/model/layers/attend.h"
#include "worker/model/layers/gate.h"
#include "worker/model/layers/norm.h"
#include "worker/model/layers/project.h"
#include "worker/model/layers/rotate.h"
#include "worker/model/layers/spread.h"
#include "worker/model/low_rank.h"

namespace zerofleet::model {
namespace {

// Makes the layer of each kind of row.
struct MakeLayer {
  float norm_epsilon;
  Declaration& declaration;

  std::unique_ptr<Layer> operator()(const Norm& row) const {
    return std::make_unique<NormLayer>(row, norm_epsilon, declaration);
  }
  std::unique_ptr<Layer> operator()(const Spread& row) const { return std::make_unique<SpreadLayer>(row, declaration); }
  std::unique_ptr<Layer> operator()(const Rotate& row) const {
    return std::make_unique<RotateLayer>(row, norm_epsilon, declaration);
  }
  std::unique_ptr<Layer> operator()(const Attend& /*row*/) const { return std::make_unique<AttendLayer>(declaration); }
  std::unique_ptr<Layer> operator()(const Activate& /*row*/) const { return std::make_unique<GeluLayer>(declaration); }
  std::unique_ptr<Layer> operator()(const Gate& /*row*/) const { return std::make_unique<GateLayer>(declaration); }
  std::unique_ptr<Layer> operator()(const Project& row) const {
    return std::make_unique<ProjectLayer>(row, declaration);
  }
};

}  // namespace

Block::Block(const FamilyRows& rows, const Sizes& sizes, const Sharing& sharing) : declared_(sizes, sharing) {
  for (const BlockRow& row : rows.block) {
    if (std::holds_alternative<Norm>(row)) branches_.push_back(layers_.size());
    layers_.push_back(std::visit(MakeLayer{rows.Epsilon(sizes), declared_}, row));
  }
  branches_.push_back(layers_.size());
  ZF_CHECK(branches_.front() == 0);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->SetNeighbours(i == 0 ? nullptr : layers_[i - 1].get(),
                              i + 1 == layers_.size() ? nullptr : layers_[i + 1].get());
  }
}

int64_t Block::AttentionScratchBytes(device::Ops& ops, int64_t sequences, int64_t time) const {
  int64_t most = 0;
  for (const std::unique_ptr<Layer>& layer : layers_) {
    most = std::max(most, layer->AttentionScratchBytes(ops, sequences, time));
  }
  return most;
}

int64_t Block::CachedElements(int64_t capacity) const {
  int64_t elements = 0;
  for (const std::unique_ptr<Layer>& layer : layers_) elements += layer->CachedElements(capacity);
  return elements;
}

absl::Status Block::ForwardWithin(const UnitPass& pass) const {
  for (size_t i = 0; i + 1 < layers_.size(); ++i) ZF_RETURN_IF_ERROR(layers_[i]->Forward(pass));
  return absl::OkStatus();
}

absl::Status Block::ForwardOutput(const UnitPass& pass) const { return layers_.back()->Forward(pass); }

absl::Status Block::Backward(const UnitPass& pass, bool again) const {
  if (declared_.adapter_sums() > 0) {
    pass.pass.ops.Zero(pass.pass.stream, pass.pass.scratch.adapter_sums,
                       declared_.adapter_sums() * static_cast<int64_t>(sizeof(float)));
  }
  for (size_t branch = branches_.size() - 1; branch-- > 0;) {
    ZF_RETURN_IF_ERROR(BranchBackward(pass, branches_[branch], branches_[branch + 1], again));
  }
  ZF_RETURN_IF_ERROR(SumAdapterGradients(pass, declared_));
  if (declared_.norm_sums() == 0 || pass.dw == nullptr) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(SumNormGradients(pass, declared_.norm_sums()));
  for (const std::unique_ptr<Layer>& layer : layers_) ZF_RETURN_IF_ERROR(layer->AddNormGradient(pass));
  return absl::OkStatus();
}

absl::Status Block::BranchBackward(const UnitPass& pass, size_t begin, size_t end, bool again) const {
  ZF_ASSIGN_OR_RETURN(device::Tensor dy, pass.pass.WholeGradient(pass.unit));
  for (size_t i = begin; again && i < end; ++i) ZF_RETURN_IF_ERROR(layers_[i]->Again(pass));
  for (size_t i = end; i-- > begin;) {
    ZF_ASSIGN_OR_RETURN(dy, layers_[i]->Backward(pass, dy));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::model
