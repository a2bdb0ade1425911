// Whole parameters in memory, forward passes only; see inference.h.
#include "worker/inference/inference.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/data/dataset.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::inference {
namespace {

constexpr const char* kLogitsRow = "logits";

}  // namespace

class InferenceModel::ResidentParameters : public model::ParameterSource {
 public:
  ResidentParameters(const model::ModelSpec& spec, float* weights) : spec_(spec), weights_(weights) {}

  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    return device::Tensor{weights_ + spec_.units()[unit].flat_begin, device::DType::kF32};
  }
  void Release(int) override {}
  absl::StatusOr<float*> Gradient(int) override { return absl::InternalError("inference has no gradients"); }
  absl::Status DeliverGradient(int) override { return absl::InternalError("inference has no gradients"); }

 private:
  const model::ModelSpec& spec_;
  float* const weights_;
};

InferenceModel::InferenceModel(v1::CheckpointManifest manifest, model::ModelSpec spec,
                               std::unique_ptr<device::Device> device, int64_t sequences, int64_t context)
    : manifest_(std::move(manifest)),
      spec_(std::move(spec)),
      sequences_(sequences),
      context_(context),
      device_(std::move(device)) {}

InferenceModel::~InferenceModel() = default;

absl::StatusOr<std::unique_ptr<InferenceModel>> InferenceModel::Load(const std::string& step_dir,
                                                                     const device::DeviceOptions& device_options,
                                                                     int64_t sequences, int64_t context) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, checkpoint::ReadManifest(step_dir));
  const int64_t most = manifest.config().model().context();
  if (context > most) {
    return absl::InvalidArgumentError(absl::StrCat("a context of ", context, ": the model has ", most));
  }
  ZF_ASSIGN_OR_RETURN(model::ModelSpec spec, model::ModelSpec::Create(manifest.config().model()));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Device> device, device::CreateDevice(device_options));
  std::unique_ptr<InferenceModel> model(new InferenceModel(std::move(manifest), std::move(spec), std::move(device),
                                                           sequences, context > 0 ? context : most));
  ZF_RETURN_IF_ERROR(checkpoint::VerifyTokenizerFiles(step_dir, model->manifest_));
  model->data_ = model->manifest_.config().data();
  model->data_.set_tokenizer(checkpoint::TokenizerOf(step_dir, model->manifest_));
  ZF_RETURN_IF_ERROR(model->ReadWeights(step_dir));
  return model;
}

absl::Status InferenceModel::ReadWeights(const std::string& step_dir) {
  const v1::ModelConfig& config = manifest_.config().model();
  ZF_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  // Nothing is kept for a backward: all blocks work in one block's memory.
  ZF_ASSIGN_OR_RETURN(
      model_, model::Model::Create(config, {device::DType::kF32, sequences_, context_, {.segment = 1}}, *device_));
  memory::MemoryPlan plan{
      {{memory::Space::kDevice, memory::Category::kParameters, zero::kParametersRow, spec_.parameters() * 4},
       {memory::Space::kDevice, memory::Category::kActivations, zero::kActivationsRow, model_->ActivationBytes()},
       {memory::Space::kDevice, memory::Category::kBuffers, zero::kModelScratchRow, model_->ScratchBytes()},
       {memory::Space::kDevice, memory::Category::kBuffers, zero::kTokensRow, 2 * sequences_ * context_ * 4},
       {memory::Space::kDevice, memory::Category::kBuffers, kLogitsRow, config.vocab() * 4},
       {memory::Space::kDevice, memory::Category::kBuffers, zero::kSumsRow, 8}}};
  ZF_ASSIGN_OR_RETURN(arena_, memory::Arena::Create(plan, memory::Space::kDevice, *device_));
  float* weights = arena_->TakeAs<float>(zero::kParametersRow);
  model_->SetMemory({arena_->Take(zero::kActivationsRow), arena_->Take(zero::kModelScratchRow)});
  tokens_ = arena_->TakeAs<int32_t>(zero::kTokensRow);
  logits_ = arena_->TakeAs<float>(kLogitsRow);
  loss_sum_ = arena_->TakeAs<double>(zero::kSumsRow);
  parameters_ = std::make_unique<ResidentParameters>(spec_, weights);
  return checkpoint::LoadRanges(step_dir, manifest_, {{0, spec_.parameters(), 0}},
                                [&](int vector, int64_t offset, std::span<const float> values) {
                                  if (vector != 0) return absl::OkStatus();
                                  device_->Copy(*stream_, weights + offset, values.data(),
                                                static_cast<int64_t>(values.size_bytes()));
                                  return stream_->Synchronize();
                                });
}

absl::StatusOr<InferenceModel::Loss> InferenceModel::MeanLoss(const data::DataPath& path) {
  const v1::Config& config = manifest_.config();
  const int64_t context = context_;
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<data::Dataset> dataset,
                      data::OpenForModel(data_, path, context, config.model().vocab()));
  std::vector<int32_t> staging(2 * sequences_ * context);
  double total = 0;
  for (int64_t first = 0; first < dataset->samples(); first += sequences_) {
    int64_t sequences = std::min(sequences_, dataset->samples() - first), tokens = sequences * context;
    ZF_RETURN_IF_ERROR(dataset->ReadBatch(
        sequences, [&](int64_t i) { return first + i; }, staging.data()));
    device_->Copy(*stream_, tokens_, staging.data(), 2 * tokens * static_cast<int64_t>(sizeof(int32_t)));
    ZF_RETURN_IF_ERROR(
        model_->Evaluate({sequences, context, tokens_, tokens_ + tokens}, *parameters_, *stream_, loss_sum_));
    double sum = 0;
    device_->Copy(*stream_, &sum, loss_sum_, sizeof sum);
    ZF_RETURN_IF_ERROR(stream_->Synchronize());
    total += sum;
  }
  int64_t tokens = dataset->samples() * context;
  if (!std::isfinite(total)) {
    return absl::DataLossError(absl::StrCat(path.key, ": the loss of ", path.path, " is ", total,
                                            ": the checkpoint's weights, or what is computed from them, are not "
                                            "finite"));
  }
  return Loss{total / static_cast<double>(tokens), tokens};
}

absl::StatusOr<std::vector<float>> InferenceModel::NextLogits(std::span<const int32_t> tokens) {
  const v1::ModelConfig& config = manifest_.config().model();
  if (tokens.empty()) return absl::InvalidArgumentError("no tokens to continue; the prompt must not be empty");
  tokens = tokens.last(std::min(tokens.size(), static_cast<size_t>(context_)));
  for (int32_t token : tokens) {
    if (token < 0 || token >= config.vocab()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, " is not below the vocabulary of ", config.vocab()));
    }
  }
  const int64_t seen = static_cast<int64_t>(tokens.size());
  device_->Copy(*stream_, tokens_, tokens.data(), seen * static_cast<int64_t>(sizeof(int32_t)));
  ZF_RETURN_IF_ERROR(
      model_->Logits({1, seen, tokens_, nullptr}, *parameters_, *stream_, {logits_, device::DType::kF32}));
  std::vector<float> logits(config.vocab());
  device_->Copy(*stream_, logits.data(), logits_, config.vocab() * static_cast<int64_t>(sizeof(float)));
  ZF_RETURN_IF_ERROR(stream_->Synchronize());
  for (const float logit : logits) {
    if (!std::isfinite(logit)) {
      return absl::DataLossError(
          "the model's scores are not finite, so its training has diverged; use an earlier "
          "checkpoint");
    }
  }
  return logits;
}

}  // namespace zerofleet::inference
