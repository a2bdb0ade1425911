// Makes a table and a script from data, and holds passes to the script; see foreign.h.
#include "worker/model/foreign.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

constexpr int64_t kMostSide = int64_t{1} << 40, kMostElements = int64_t{1} << 46;
constexpr int kMostUnits = 100000;

absl::Status InForeign(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("model.foreign.", where, ": ", what));
}

// Checks that sides are in range and that the number of elements, which is added to *all, does not overflow.
absl::Status CheckShape(const v1::ForeignTensor& tensor, int64_t* all) {
  int64_t elements = 1;
  for (const int64_t side : tensor.shape()) {
    if (side < 1 || side > kMostSide || elements > kMostElements / side) {
      return InForeign(tensor.name(), absl::StrCat("a side of ", side, "; sides are 1 to ", kMostSide,
                                                   ", and elements at most ", kMostElements));
    }
    elements *= side;
  }
  *all += elements;
  return *all <= kMostElements
             ? absl::OkStatus()
             : InForeign(tensor.name(), absl::StrCat("the model has more than ", kMostElements, " parameters"));
}

// Types of a buffer's elements, by their names in safetensors files.
constexpr std::pair<const char*, int64_t> kBufferTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                                            {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
                                                            {"U8", 1},  {"BOOL", 1}};

// Checks that the tensor has an element for each byte of its buffer.
absl::Status CheckBuffer(const v1::ForeignTensor& tensor) {
  const v1::ForeignBuffer& buffer = tensor.buffer();
  const auto* const type = std::find_if(std::begin(kBufferTypes), std::end(kBufferTypes),
                                        [&](const auto& one) { return one.first == buffer.dtype(); });
  if (type == std::end(kBufferTypes)) return InForeign(tensor.name(), "a buffer of an unknown type");
  int64_t bytes = type->second;
  for (const int64_t side : buffer.shape()) {
    if (side < 1 || bytes > kMostElements / side) return InForeign(tensor.name(), "a buffer of an impossible shape");
    bytes *= side;
  }
  if (tensor.shape_size() == 1 && tensor.shape(0) == bytes && !tensor.decay()) return absl::OkStatus();
  return InForeign(tensor.name(), absl::StrCat("a buffer of ", bytes, " bytes, whose tensor must be one of as many ",
                                               "elements without weight decay"));
}

absl::Status CheckUnits(const v1::ForeignModel& foreign) {
  if (foreign.units().empty() || foreign.units_size() > kMostUnits) {
    return InForeign("units", absl::StrCat(foreign.units_size(), " of them, expected 1 to ", kMostUnits));
  }
  std::set<std::string> tensors, units;
  int64_t elements = 0;
  for (const v1::ForeignUnit& unit : foreign.units()) {
    if (unit.name().empty() || !units.insert(unit.name()).second) {
      return InForeign("units", absl::StrCat("the name '", unit.name(), "' is empty or given twice"));
    }
    if (unit.tensors().empty()) return InForeign(unit.name(), "a unit without tensors");
    for (const v1::ForeignTensor& tensor : unit.tensors()) {
      if (tensor.name().empty() || !tensors.insert(tensor.name()).second) {
        return InForeign(unit.name(), absl::StrCat("the tensor name '", tensor.name(), "' is empty or given twice"));
      }
      ZF_RETURN_IF_ERROR(CheckShape(tensor, &elements));
      const bool last = &unit == &*foreign.units().rbegin();
      if (tensor.has_buffer() != unit.tensors(0).has_buffer() ||
          (tensor.has_buffer() && (!last || unit.frozen() || !unit.module().empty()))) {
        return InForeign(unit.name(),
                         "a unit of buffers is the last one, has nothing else and no module, and is not frozen");
      }
      if (tensor.has_buffer()) ZF_RETURN_IF_ERROR(CheckBuffer(tensor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string DifferenceOf(const v1::ForeignModel& stored, const v1::ForeignModel& model) {
  const auto rows = [](const v1::ForeignModel& of) {
    std::vector<std::pair<std::string, std::string>> all;  // a tensor, and its unit and shape
    for (const v1::ForeignUnit& unit : of.units()) {
      for (const v1::ForeignTensor& tensor : unit.tensors()) {
        const v1::ForeignBuffer& buffer = tensor.buffer();
        const auto& shape = tensor.has_buffer() ? buffer.shape() : tensor.shape();
        all.emplace_back(tensor.name(), absl::StrCat(tensor.has_buffer() ? "a buffer, " : "", buffer.dtype(), "[",
                                                     absl::StrJoin(shape, ", "), "] in unit ", unit.name(),
                                                     unit.frozen() ? ", frozen," : ""));
      }
    }
    return all;
  };
  const auto there = rows(stored), here = rows(model);
  for (size_t i = 0; i < std::min(there.size(), here.size()); ++i) {
    if (there[i] == here[i]) continue;
    if (there[i].first == here[i].first) {
      return absl::StrCat("tensor ", there[i].first, " is ", there[i].second, " there and ", here[i].second, " here");
    }
    return absl::StrCat("tensor ", i, " is ", there[i].first, " there and ", here[i].first, " here");
  }
  if (there.size() == here.size()) return "";
  return absl::StrCat("it has ", there.size(), " tensors there and ", here.size(), " here");
}

bool AssignsBuffers(const v1::ForeignModel& model) {
  return std::any_of(model.units().begin(), model.units().end(), [](const v1::ForeignUnit& unit) {
    return !unit.tensors().empty() && unit.tensors(0).has_buffer();
  });
}

void FreezeAs(const v1::ForeignModel& other, v1::ForeignModel& model) {
  for (int unit = 0; unit < model.units_size(); ++unit) {
    model.mutable_units(unit)->set_frozen(unit < other.units_size() && other.units(unit).frozen());
  }
}

// Every tensor starts at zero, since a foreign run loads the weights that it begins with.
absl::StatusOr<ModelSpec> ModelSpec::CreateForeign(const v1::ModelConfig& config, const ModelPart& part) {
  if (!config.has_foreign()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.torch: ", config.torch(),
        " is a PyTorch module that has not been looked at; start it with `python -m zerofleet` or `zerofleet train`"));
  }
  if (part.count > 1) {
    return absl::InvalidArgumentError(absl::StrCat("parallel.tensor: must be 1 with model.torch, got ", part.count));
  }
  const v1::ForeignModel& foreign = config.foreign();
  ZF_RETURN_IF_ERROR(CheckUnits(foreign));
  ModelSpec spec(part, /*prefix=*/"");
  ZF_ASSIGN_OR_RETURN(PassScript script, ScriptOf(foreign));
  spec.script_ = std::make_shared<const PassScript>(std::move(script));
  spec.layers_ = foreign.units_size();
  for (const v1::ForeignUnit& unit : foreign.units()) {
    std::vector<DeclaredTensor> tensors;
    for (const v1::ForeignTensor& tensor : unit.tensors()) {
      tensors.push_back({.name = tensor.name(),
                         .shape = {tensor.shape().begin(), tensor.shape().end()},
                         .decay = tensor.decay(),
                         .init = Init::kZeros,
                         .unprefixed = true});
      if (tensors.back().shape.empty()) tensors.back().shape = {1};
    }
    spec.AddUnit(unit.name(), UnitKind::kBlock, "", tensors);
    spec.units_.back().frozen = unit.frozen();
    const size_t first = spec.tensors_.size() - tensors.size();
    for (int t = 0; t < unit.tensors_size(); ++t) {
      spec.tensors_[first + static_cast<size_t>(t)].frozen = unit.frozen();
      spec.tensors_[first + static_cast<size_t>(t)].assigned = unit.tensors(t).has_buffer();
    }
  }
  if (spec.trained_parameters() == 0) return InForeign("units", "all of them are frozen: nothing is trained");
  spec.passed_units_ = foreign.units_size();
  spec.whole_base_parameters_ = spec.whole_parameters_;
  const auto context = static_cast<double>(std::max<int64_t>(1, config.context()));
  spec.flops_per_token_ = foreign.flops_per_sample() / context;
  return spec;
}

absl::StatusOr<std::unique_ptr<ForeignModel>> ForeignModel::Create(const v1::ModelConfig& config, ForeignPasses* passes,
                                                                   device::Device& device) {
  ZF_ASSIGN_OR_RETURN(PassScript script, ScriptOf(config.foreign()));
  ZF_RETURN_IF_ERROR(CheckDeliveries(config.foreign(), script));
  std::vector<std::string> units;
  for (const v1::ForeignUnit& unit : config.foreign().units()) units.push_back(unit.name());
  return std::unique_ptr<ForeignModel>(new ForeignModel(std::move(script), std::move(units), passes, device));
}

int64_t ForeignModel::ScratchBytes() const { return int64_t{1} << 20; }

void ForeignModel::SetTensorGroup(TensorGroup* group) { ZF_CHECK(group == nullptr); }

absl::Status ForeignModel::CheckCanRun() const {
  if (dry() || passes_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "model.torch: a PyTorch module runs in workers of the Python package; start them with `python -m zerofleet "
      "worker`");
}

absl::Status ForeignModel::LimitOwnMemory(int64_t bytes) {
  return passes_ == nullptr ? absl::OkStatus() : passes_->LimitMemory(bytes);
}

void ForeignModel::Store(const ForeignLoss& loss, device::Stream& stream, double* loss_sum, double* weight) const {
  const bool here = loss.on_device == nullptr;
  device_.Copy(stream, loss_sum, here ? &loss.sum : loss.on_device, sizeof *loss_sum);
  device_.Copy(stream, weight, here ? &loss.weight : loss.on_device + 1, sizeof *weight);
}

absl::Status ForeignModel::Train(const MicroBatch& batch, const float* /*gradient_scale*/, ParameterSource& parameters,
                                 device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) {
  ZF_RETURN_IF_ERROR(CheckCanRun());
  ScriptedPass pass(script_.training, units_, parameters);
  if (dry()) {
    on_backward();
    return pass.Finish();
  }
  ZF_CHECK(batch.weight != nullptr);
  ZF_RETURN_IF_ERROR(stream.failure());
  ZF_ASSIGN_OR_RETURN(const ForeignLoss loss, passes_->Train({batch, stream}, pass, on_backward));
  Store(loss, stream, loss_sum, batch.weight);
  return pass.Finish();
}

absl::Status ForeignModel::Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                                    double* loss_sum) {
  ZF_RETURN_IF_ERROR(CheckCanRun());
  ScriptedPass pass(script_.evaluation, units_, parameters);
  if (dry()) return pass.Finish();
  ZF_CHECK(batch.weight != nullptr);
  ZF_RETURN_IF_ERROR(stream.failure());
  ZF_ASSIGN_OR_RETURN(const ForeignLoss loss, passes_->Evaluate({batch, stream}, pass));
  Store(loss, stream, loss_sum, batch.weight);
  return pass.Finish();
}

absl::Status ForeignModel::Logits(const MicroBatch& /*batch*/, ParameterSource& /*parameters*/,
                                  device::Stream& /*stream*/, device::Tensor /*logits*/) {
  return absl::UnimplementedError("model.torch: a PyTorch module has no logits that are known here");
}

}  // namespace zerofleet::model
