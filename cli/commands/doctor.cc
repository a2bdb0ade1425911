// See doctor.h.
#include "cli/commands/doctor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/planner/machine.h"
#include "worker/checkpoint/huggingface_source.h"
#include "worker/checkpoint/huggingface_tensor.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::cli {
namespace {

using checkpoint::HuggingFaceSource;
using checkpoint::SafetensorsTensor;

constexpr int64_t kMostBatchTokens = int64_t{1} << 28;
constexpr int64_t kUncountedLabel = -100;
constexpr double kMostUpdates = 1 << 24;  // trainers store the count in fp32, which is exact up to here
constexpr char kInputs[] = "input_ids", kLabels[] = "labels";
constexpr char kLoss[] = "loss", kNorm[] = "grad_norm", kStep[] = "step";
constexpr char kGradients[] = "gradient", kUpdated[] = "updated";

// One integer array of a safetensors file.
absl::StatusOr<std::vector<int64_t>> ReadIntegers(const MappedFile& file, const checkpoint::SafetensorsHeader& header,
                                                  const SafetensorsTensor& tensor) {
  const bool wide = tensor.dtype == "I64";
  if (!wide && tensor.dtype != "I32") {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": tensor '", tensor.name, "': dtype ", tensor.dtype, ", expected I64 or I32"));
  }
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 2 ||
      tensor.shape[0] > kMostBatchTokens / tensor.shape[1]) {
    return absl::DataLossError(absl::StrCat(file.path(), ": tensor '", tensor.name, "': shape (",
                                            absl::StrJoin(tensor.shape, ", "), "), expected (sequences, tokens)"));
  }
  std::vector<int64_t> values(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]));
  const std::byte* const data = file.bytes().data() + header.data_begin + tensor.begin;
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t narrow = 0;
    if (wide) std::memcpy(&values[i], data + i * sizeof(int64_t), sizeof(int64_t));
    if (!wide) std::memcpy(&narrow, data + i * sizeof(int32_t), sizeof(int32_t));
    if (!wide) values[i] = narrow;
  }
  return values;
}

double Norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

// The tensors that another trainer has written, looked up by our tensor table.
class Expectation {
 public:
  Expectation(std::string path, HuggingFaceSource source, const model::ModelSpec& spec,
              const model::HuggingFaceFormat& format)
      : path_(std::move(path)), source_(std::move(source)), spec_(spec), format_(format) {}

  // The tensor's name in the file, with or without the format's prefix; empty if the file does not have it.
  std::string NameOf(const char* kind, const model::TensorSpec& tensor) const {
    const std::string bare = checkpoint::SourceName(format_, tensor);
    for (const std::string& name :
         {absl::StrCat(kind, ".", std::string(format_.prefix), bare), absl::StrCat(kind, ".", bare)}) {
      if (source_.Has(name)) return name;
    }
    return "";
  }
  bool Has(const char* kind) const {
    return std::any_of(spec_.tensors().begin(), spec_.tensors().end(),
                       [&](const model::TensorSpec& tensor) { return !NameOf(kind, tensor).empty(); });
  }
  // Reads the tensor into its place in `flat`; false if the file does not have it.
  absl::StatusOr<bool> Read(const char* kind, const model::TensorSpec& tensor, std::vector<float>& flat) const {
    const std::string name = NameOf(kind, tensor);
    if (name.empty()) return false;
    const std::span<float> place(flat.data() + tensor.flat_begin, static_cast<size_t>(tensor.elements()));
    ZF_RETURN_IF_ERROR(checkpoint::ReadSourceTensor(source_, name, format_, tensor, place));
    return true;
  }
  // The index of an element as the file has it, such as "[3, 4]".
  std::string PlaceOf(const model::TensorSpec& tensor, int64_t element) const {
    const std::vector<int64_t> shape = checkpoint::SourceShape(format_, tensor);
    if (shape.size() != 2) return absl::StrCat("[", element, "]");
    const int64_t row = element / tensor.shape[1], column = element % tensor.shape[1];
    const bool turned = format_.transposes_products && tensor.projects;
    return turned ? absl::StrCat("[", column, ", ", row, "]") : absl::StrCat("[", row, ", ", column, "]");
  }
  bool HasNumber(const char* name) const { return source_.Has(name); }
  absl::StatusOr<double> Number(const char* name) const {
    float value = 0;
    if (!HasNumber(name)) return absl::DataLossError(absl::StrCat(path_, ": no tensor '", name, "'"));
    const bool scalar = source_.Check(name, {}).ok();
    ZF_RETURN_IF_ERROR(source_.Read(name, scalar ? std::vector<int64_t>() : std::vector<int64_t>{1}, {&value, 1}));
    return value;
  }
  // DataLoss if the file has a tensor that is neither of one of `kinds` nor one of `numbers`.
  absl::Status CheckNames(const std::vector<std::string>& kinds, const std::set<std::string>& numbers) const {
    std::set<std::string> known = numbers;
    for (const model::TensorSpec& tensor : spec_.tensors()) {
      for (const std::string& kind : kinds) known.insert(NameOf(kind.c_str(), tensor));
    }
    for (const std::string& name : source_.Names()) {
      if (known.contains(name)) continue;
      return absl::DataLossError(absl::StrCat("unknown tensor '", name, "'; expected ", absl::StrJoin(numbers, ", "),
                                              ", ", absl::StrJoin(kinds, ".NAME, "), ".NAME, with the model's names"));
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  HuggingFaceSource source_;
  const model::ModelSpec& spec_;
  const model::HuggingFaceFormat& format_;
};

absl::StatusOr<Expectation> OpenExpectation(const std::string& flag, const std::string& path,
                                            const model::ModelSpec& spec, const model::HuggingFaceFormat& format,
                                            const std::vector<std::string>& kinds,
                                            const std::set<std::string>& numbers) {
  absl::StatusOr<HuggingFaceSource> source = HuggingFaceSource::OpenFile(path, format);
  if (!source.ok()) return Annotate(source.status(), flag);
  Expectation expectation(path, *std::move(source), spec, format);
  ZF_RETURN_IF_ERROR(Annotate(expectation.CheckNames(kinds, numbers), absl::StrCat(flag, ": ", path)));
  return expectation;
}

class Examination {
 public:
  Examination(const DoctorInput& input, const model::ModelSpec& spec) : input_(input), spec_(spec) {}

  void CompareNumber(const char* what, double ours, double theirs) {
    DoctorFinding finding{.what = what, .compared = 1, .beyond = 0, .largest = 0, .largest_name = what, .first = ""};
    finding.largest = std::abs(theirs - ours) / std::max(std::abs(ours), 1e-30);
    if (!(finding.largest <= input_.tolerance)) {
      finding.beyond = 1;
      finding.first = absl::StrFormat("%s is %.9g, and %.9g here (%.3g times)", what, theirs, ours, theirs / ours);
    }
    findings_.push_back(std::move(finding));
  }

  // Compares the tensors that the file has of this kind. `least` is the size of an element below which differences are
  // rounding. If `before` is given, the changes since `before` are compared, not the values.
  absl::Status CompareTensors(const char* kind, const Expectation& expect, bool head_first,
                              const std::vector<float>& ours, double least, const std::vector<float>* before) {
    constexpr double kRoundedWeight = 2.4e-7;  // relative to a weight: twice the rounding of its update in fp32
    DoctorFinding finding{.what = kind, .compared = 0, .beyond = 0, .largest = 0, .largest_name = "", .first = ""};
    std::vector<float> theirs(ours.size());
    std::vector<const model::TensorSpec*> order;
    for (const model::TensorSpec& tensor : spec_.tensors()) order.push_back(&tensor);
    if (head_first) std::reverse(order.begin(), order.end());
    for (const model::TensorSpec* const tensor : order) {
      ZF_ASSIGN_OR_RETURN(const bool there, expect.Read(kind, *tensor, theirs));
      if (!there) continue;
      const auto of = [&](const std::vector<float>& flat) {
        return std::span<const float>(flat).subspan(static_cast<size_t>(tensor->flat_begin),
                                                    static_cast<size_t>(tensor->elements()));
      };
      Deviation deviation = DeviationOf(of(ours), of(theirs));
      double rounding = 0;
      if (before != nullptr) {
        std::vector<float> our_change(of(ours).size()), their_change(our_change.size());
        for (size_t i = 0; i < our_change.size(); ++i) {
          our_change[i] = of(ours)[i] - of(*before)[i];
          their_change[i] = of(theirs)[i] - of(*before)[i];
        }
        deviation = DeviationOf(our_change, their_change);
        rounding = kRoundedWeight * Norm(of(*before));
      }
      const double floor = least * std::sqrt(static_cast<double>(tensor->elements()));
      const double part = std::max(0.0, deviation.difference - rounding) / std::max({deviation.norm, floor, 1e-30});
      ++finding.compared;
      if (!(part <= finding.largest) && !std::isnan(finding.largest)) {
        finding.largest = part;
        finding.largest_name = tensor->name;
      }
      if (part <= input_.tolerance) continue;
      ++finding.beyond;
      if (!finding.first.empty()) continue;
      finding.first = absl::StrCat(kind, " of ", tensor->name, before == nullptr ? "" : ": its change", " ",
                                   DeviationText(deviation, expect.PlaceOf(*tensor, deviation.element)),
                                   absl::StrFormat("; %.2g of its size", part));
    }
    if (finding.compared > 0) findings_.push_back(std::move(finding));
    return absl::OkStatus();
  }

  std::vector<DoctorFinding> Take() { return std::move(findings_); }

 private:
  const DoctorInput& input_;
  const model::ModelSpec& spec_;
  std::vector<DoctorFinding> findings_;
};

// Reads the optimizer's states before the step. The file must have those of all tensors: a trainer without a state for
// some tensor has to write zeros.
absl::Status ReadStates(const std::string& path, const Expectation& state, const model::ModelSpec& spec,
                        const optim::OptimizerRow& row, inference::UpdateToDo& update) {
  ZF_ASSIGN_OR_RETURN(const double steps, state.Number(kStep));
  if (steps < 0 || steps != std::floor(steps) || steps > kMostUpdates) {
    return absl::DataLossError(
        absl::StrFormat("%s: tensor '%s': must be a whole number from 0 to 2^24, got %g", path, kStep, steps));
  }
  update.updates = static_cast<int64_t>(steps);
  const bool optional = row.HasKey("momentum") && update.optimizer.momentum() == 0;  // then trainers keep none
  for (size_t v = 1; v < row.vectors.size(); ++v) {
    for (const model::TensorSpec& tensor : spec.tensors()) {
      ZF_ASSIGN_OR_RETURN(const bool there, state.Read(row.vectors[v].name, tensor, update.states[v]));
      if (there || optional) continue;
      return absl::DataLossError(absl::StrCat(path, ": no tensor '", row.vectors[v].name, ".", tensor.name, "'"));
    }
  }
  return absl::OkStatus();
}

// Besides the weights and the optimizer's states, memory holds the gradients, the weights before the step, and one kind
// of the other trainer's tensors.
absl::Status CheckMemoryFor(int64_t parameters, size_t vectors) {
  const int64_t needed = parameters * static_cast<int64_t>((vectors + 3) * sizeof(float)), usable = UsableMemoryBytes();
  if (needed <= usable) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a step of ", parameters, " parameters in fp32 needs ",
                                                   HumanBytes(needed), " of memory, and there are ",
                                                   HumanBytes(usable)));
}

// The root mean square of a vector.
double SizeOf(std::span<const float> values) {
  return values.empty() ? 0 : Norm(values) / std::sqrt(static_cast<double>(values.size()));
}

}  // namespace

absl::StatusOr<inference::StepBatch> ReadStepBatch(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const checkpoint::SafetensorsHeader header, checkpoint::ReadSafetensorsHeader(path));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  std::map<std::string, const SafetensorsTensor*> tensors;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (header.data_begin + tensor.end > static_cast<int64_t>(file->bytes().size())) {
      return absl::DataLossError(absl::StrCat(path, ": changed while it was read"));
    }
    tensors[tensor.name] = &tensor;
  }
  for (const auto& [name, tensor] : tensors) {
    if (name == kInputs || name == kLabels) continue;
    return absl::DataLossError(absl::StrCat(path, ": unknown tensor '", name, "'; expected ", kInputs, " and ", kLabels,
                                            ": what is padded is at the end and has label ", kUncountedLabel));
  }
  if (!tensors.contains(kInputs)) return absl::DataLossError(absl::StrCat(path, ": no tensor '", kInputs, "'"));
  const SafetensorsTensor& ids = *tensors[kInputs];
  const SafetensorsTensor& labelled = tensors.contains(kLabels) ? *tensors[kLabels] : ids;
  ZF_ASSIGN_OR_RETURN(const std::vector<int64_t> inputs, ReadIntegers(*file, header, ids));
  ZF_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadIntegers(*file, header, labelled));
  if (ids.shape != labelled.shape) {
    return absl::DataLossError(absl::StrCat(path, ": '", kLabels, "' has another shape than '", kInputs, "'"));
  }
  inference::StepBatch batch{.sequences = ids.shape[0], .time = ids.shape[1], .inputs = {}, .targets = {}};
  for (int64_t s = 0; s < batch.sequences; ++s) {
    for (int64_t t = 0; t < batch.time; ++t) {
      const int64_t input = inputs[s * batch.time + t];
      const int64_t label = t + 1 < batch.time ? labels[s * batch.time + t + 1] : kUncountedLabel;
      const bool fits = input == static_cast<int32_t>(input) && label == static_cast<int32_t>(label);
      if (!fits || (label < 0 && label != kUncountedLabel)) {
        return absl::DataLossError(absl::StrCat(path, ": id ", input, " and label ", label, " at sequence ", s,
                                                ", position ", t, "; labels are ids, or ", kUncountedLabel));
      }
      batch.inputs.push_back(static_cast<int32_t>(input));
      batch.targets.push_back(label == kUncountedLabel ? -1 : static_cast<int32_t>(label));
    }
  }
  return batch;
}

Deviation DeviationOf(std::span<const float> ours, std::span<const float> theirs) {
  Deviation deviation;
  double squares = 0, differences = 0, products = 0, largest = -1;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double mine = ours[i], other = theirs[i], difference = other - mine;
    squares += mine * mine;
    differences += difference * difference;
    products += mine * other;
    if (std::abs(difference) <= largest) continue;
    largest = std::abs(difference);
    deviation.element = static_cast<int64_t>(i);
    deviation.ours = ours[i];
    deviation.theirs = theirs[i];
  }
  deviation.norm = std::sqrt(squares);
  deviation.difference = std::sqrt(differences);
  if (squares > 0) deviation.factor = products / squares;
  double rest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double left = theirs[i] - deviation.factor * ours[i];
    rest += left * left;
  }
  deviation.rest = std::sqrt(rest);
  return deviation;
}

std::string DeviationText(const Deviation& deviation, const std::string& place) {
  constexpr double kMultiple = 1e-3;
  const double size = std::abs(deviation.factor) * deviation.norm;
  if (deviation.norm > 0 && deviation.factor == 0 && deviation.rest == 0) return "is zero";
  if (size > 0 && deviation.rest <= kMultiple * size) {
    return absl::StrFormat("is %.6g times ours", deviation.factor);
  }
  return absl::StrFormat("differs, most in element %s: %.9g, and %.9g here", place, deviation.theirs, deviation.ours);
}

absl::StatusOr<std::vector<DoctorFinding>> Examine(const DoctorInput& input, device::Device& device) {
  constexpr double kLeastPart = 1e-2;  // relative to the mean size of all gradients; below it, differences are rounding
  // The parser's range check accepts nan, and every difference would be beyond that.
  if (std::isnan(input.tolerance)) return absl::InvalidArgumentError("--tolerance: must be 1e-09 to 1, got nan");
  ZF_ASSIGN_OR_RETURN(const v1::ModelConfig model, checkpoint::ReadHuggingFaceModel(input.checkpoint));
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* const family, model::FindModelFamily(model.family()));
  const model::HuggingFaceFormat& format = family->hugging_face;
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* const row, optim::FindOptimizer(input.optimizer.name()));
  if (row->whole_matrices) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.name: ", row->name, " is not examined; use adamw or sgd"));
  }
  ZF_RETURN_IF_ERROR(CheckMemoryFor(spec.parameters(), row->vectors.size()));
  ZF_ASSIGN_OR_RETURN(const HuggingFaceSource source, HuggingFaceSource::Open(input.checkpoint, format));
  const auto size = static_cast<size_t>(spec.parameters());
  inference::UpdateToDo update{.model = model,
                               .optimizer = input.optimizer,
                               .decays_all = input.decays_all,
                               .updates = 0,
                               .states = std::vector(row->vectors.size(), std::vector<float>(size))};
  for (const model::TensorSpec& tensor : spec.tensors()) {
    const std::span<float> place(update.states[0].data() + tensor.flat_begin, static_cast<size_t>(tensor.elements()));
    ZF_RETURN_IF_ERROR(
        checkpoint::ReadSourceTensor(source, checkpoint::SourceName(format, tensor), format, tensor, place));
  }
  std::vector<std::string> state_kinds;
  for (size_t v = 1; v < row->vectors.size(); ++v) state_kinds.emplace_back(row->vectors[v].name);
  std::vector<std::string> kinds = {kGradients, kUpdated};
  kinds.insert(kinds.end(), state_kinds.begin(), state_kinds.end());
  ZF_ASSIGN_OR_RETURN(const Expectation expect,
                      OpenExpectation("--expect", input.expect, spec, format, kinds, {kLoss, kNorm}));
  if (!input.state.empty()) {
    ZF_ASSIGN_OR_RETURN(const Expectation state,
                        OpenExpectation("--state", input.state, spec, format, state_kinds, {kStep}));
    const absl::Status read = ReadStates(input.state, state, spec, *row, update);
    if (!read.ok()) return Annotate(read, "--state");
  }
  const absl::StatusOr<inference::StepBatch> batch = ReadStepBatch(input.batch);
  if (!batch.ok()) return Annotate(batch.status(), "--batch");

  Examination examination(input, spec);
  absl::StatusOr<inference::BatchGradients> found = inference::GradientsOf(model, update.states[0], *batch, device);
  if (!found.ok()) return Annotate(found.status(), absl::StrCat("--batch: ", input.batch));
  if (expect.HasNumber(kLoss)) {
    ZF_ASSIGN_OR_RETURN(const double theirs, expect.Number(kLoss));
    examination.CompareNumber(kLoss, found->loss, theirs);
  }
  ZF_RETURN_IF_ERROR(examination.CompareTensors(kGradients, expect, /*head_first=*/true, found->gradients,
                                                kLeastPart * SizeOf(found->gradients), nullptr));
  // From here on computed from the other trainer's gradients, as far as the file has them.
  for (const model::TensorSpec& tensor : spec.tensors()) {
    ZF_RETURN_IF_ERROR(expect.Read(kGradients, tensor, found->gradients).status());
  }
  const std::vector<float> before = update.states[0];
  ZF_ASSIGN_OR_RETURN(const double norm, inference::UpdateWith(found->gradients, update, device));
  if (expect.HasNumber(kNorm)) {
    ZF_ASSIGN_OR_RETURN(const double theirs, expect.Number(kNorm));
    examination.CompareNumber(kNorm, norm, theirs);
  }
  for (size_t v = 1; v < row->vectors.size(); ++v) {
    ZF_RETURN_IF_ERROR(
        examination.CompareTensors(row->vectors[v].name, expect, /*head_first=*/false, update.states[v], 0, nullptr));
  }
  ZF_RETURN_IF_ERROR(examination.CompareTensors(kUpdated, expect, /*head_first=*/false, update.states[0], 0, &before));
  std::vector<DoctorFinding> findings = examination.Take();
  if (findings.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--expect: ", input.expect, " holds nothing to compare"));
  }
  return findings;
}

}  // namespace zerofleet::cli
