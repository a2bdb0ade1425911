// The table; see optimizer.h.
#include "worker/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zerofleet::optim {
namespace {

using Config = v1::OptimizerConfig;
using enum OptimizerVector::Initial;

constexpr OptimizerVector kMaster = {"master", device::DType::kF32, kWeights};

bool IsPositive(double value) { return value > 0; }
bool IsNotNegative(double value) { return value >= 0; }
bool IsFractionBelowOne(double value) { return value >= 0 && value < 1; }

// The keys that every optimizer has, and its own between them.
std::vector<OptimizerKey> KeysWith(double learning_rate, double weight_decay, std::vector<OptimizerKey> own) {
  std::vector<OptimizerKey> keys = {{"learning_rate", &Config::learning_rate, &Config::set_learning_rate, learning_rate,
                                     IsPositive, "must be > 0, such as 3.0e-4"}};
  keys.insert(keys.end(), own.begin(), own.end());
  keys.push_back(
      {"weight_decay", &Config::weight_decay, &Config::set_weight_decay, weight_decay, IsNotNegative, "must be >= 0"});
  keys.push_back({"grad_clip", &Config::grad_clip, &Config::set_grad_clip, 1.0, IsNotNegative,
                  "must be > 0, or 0 for no clipping"});
  return keys;
}

float* Floats(const device::Tensor& tensor) { return static_cast<float*>(tensor.data); }

int64_t ElementsOf(const UpdatePiece& piece) {
  return piece.segments.empty() ? 0 : piece.segments.back().offset + piece.segments.back().count;
}

void UpdateAdamW(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece) {
  ops.AdamW(stream, {.segments = piece.segments,
                     .control = piece.control,
                     .gradient = piece.gradient,
                     .master = Floats(piece.states[0]),
                     .exp_avg = Floats(piece.states[1]),
                     .exp_avg_sq = Floats(piece.states[2]),
                     .parameter = piece.parameter});
}

void UpdateSgd(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece) {
  ops.Sgd(stream, {.segments = piece.segments,
                   .control = piece.control,
                   .gradient = piece.gradient,
                   .master = Floats(piece.states[0]),
                   .momentum = Floats(piece.states[1]),
                   .parameter = piece.parameter});
}

std::vector<OptimizerKey> AdamWKeys() {
  return {{"beta1", &Config::beta1, &Config::set_beta1, 0.9, IsFractionBelowOne, "must be >= 0 and < 1, such as 0.9"},
          {"beta2", &Config::beta2, &Config::set_beta2, 0.95, IsFractionBelowOne, "must be >= 0 and < 1, such as 0.95"},
          {"epsilon", &Config::epsilon, &Config::set_epsilon, 1e-8, IsPositive, "must be > 0, such as 1.0e-8"}};
}

// AdamW (Loshchilov and Hutter 2019).
OptimizerRow AdamW() {
  return {.name = "adamw",
          .vectors = {kMaster, {"exp_avg", device::DType::kF32, kZeros}, {"exp_avg_sq", device::DType::kF32, kZeros}},
          .keys = KeysWith(3e-4, 0.1, AdamWKeys()),
          .update = UpdateAdamW};
}

// Muon (Jordan et al. 2024) for the matrices of blocks' products, whose momentum is in exp_avg, and AdamW for the rest.
OptimizerRow Muon() {
  OptimizerRow row = AdamW();
  row.name = "muon";
  std::vector<OptimizerKey> own = AdamWKeys();
  own.push_back({"momentum", &Config::momentum, &Config::set_momentum, 0.95, IsFractionBelowOne,
                 "must be >= 0 and < 1, such as 0.95"});
  row.keys = KeysWith(3e-4, 0.1, std::move(own));
  row.whole_matrices = true;
  return row;
}

// SGD with momentum, as torch.optim.SGD with dampening 0: weight decay is added to the gradient.
OptimizerRow Sgd() {
  return {.name = "sgd",
          .vectors = {kMaster, {"momentum_buffer", device::DType::kF32, kZeros}},
          .keys = KeysWith(0.1, 0.0,
                           {{"momentum", &Config::momentum, &Config::set_momentum, 0.9, IsFractionBelowOne,
                             "must be >= 0 and < 1, such as 0.9"}}),
          .update = UpdateSgd};
}

std::vector<OptimizerRow> Averaging(std::vector<OptimizerRow> rows) {
  for (OptimizerRow& row : rows) row.vectors.push_back({"ema", device::DType::kF32, kWeights, /*is_average=*/true});
  return rows;
}

}  // namespace

void OptimizerRow::Apply(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece) const {
  if (piece.assigned) return Assign(ops, stream, piece);
  update(ops, stream, piece);
  if (!averages() || piece.segments.empty()) return;
  ops.Average(stream, {.count = ElementsOf(piece),
                       .control = piece.control,
                       .weights = Floats(piece.states.front()),
                       .average = Floats(piece.states.back())});
}

void OptimizerRow::Assign(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece) const {
  const int64_t count = ElementsOf(piece);
  if (count == 0) return;
  for (const size_t vector : {size_t{0}, vectors.size() - 1}) {
    if (vector > 0 && !averages()) continue;
    ops.Assign(stream,
               {.count = count, .control = piece.control, .from = piece.gradient, .to = Floats(piece.states[vector])});
  }
  if (piece.parameter.data != piece.states[0].data) ops.Convert(stream, count, piece.states[0], piece.parameter);
}

int64_t OptimizerRow::StateBytesPerParameter() const {
  int64_t bytes = 0;
  for (const OptimizerVector& vector : vectors) bytes += device::DTypeBytes(vector.dtype);
  return bytes;
}

bool OptimizerRow::HasKey(const std::string& key) const {
  return std::any_of(keys.begin(), keys.end(), [&](const OptimizerKey& each) { return each.name == key; });
}

std::span<const OptimizerRow> Optimizers() {
  static const std::vector<OptimizerRow>& rows = *new std::vector<OptimizerRow>{AdamW(), Sgd(), Muon()};
  return rows;
}

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const OptimizerRow& row : Optimizers()) names.push_back(row.name);
  return names;
}

absl::StatusOr<const OptimizerRow*> FindOptimizer(const std::string& name) {
  for (const OptimizerRow& row : Optimizers()) {
    if (row.name == name) return &row;
  }
  return absl::InvalidArgumentError(absl::StrCat("optimizer.name: must be ", absl::StrJoin(OptimizerNames(), " or "),
                                                 ", got \"", absl::CHexEscape(name), "\""));
}

absl::StatusOr<const OptimizerRow*> OptimizerOf(const v1::Config& config) {
  absl::StatusOr<const OptimizerRow*> row = FindOptimizer(config.optimizer().name());
  if (!row.ok() || config.ema().decay() == 0) return row;
  static const std::vector<OptimizerRow>& averaging =
      *new std::vector<OptimizerRow>(Averaging({Optimizers().begin(), Optimizers().end()}));
  return &averaging[static_cast<size_t>(*row - Optimizers().data())];
}

}  // namespace zerofleet::optim
