// Whole parameters in memory, forward passes only; see inference.h.
#include "worker/inference/inference.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/data/dataset.h"
#include "worker/model/foreign.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::inference {
namespace {

constexpr const char* kLogitsRow = "logits";
constexpr const char* kCacheRow = "keys and values";
constexpr const char* kWeightStagingRow = "weight staging";
constexpr int64_t kStagedWeights = 1 << 18;  // weights copied at a time

// Adds the bytes of the tokens' text; false if the tokens make no text.
bool AddBytes(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens, int64_t& bytes) {
  const absl::StatusOr<std::string> text = tokenizer.Decode(tokens, /*special=*/false);
  if (text.ok()) bytes += static_cast<int64_t>(text->size());
  return text.ok();
}

}  // namespace

class InferenceModel::ResidentParameters : public model::ParameterSource {
 public:
  ResidentParameters(const model::ModelSpec& spec, device::Tensor weights) : spec_(spec), weights_(weights) {}

  absl::StatusOr<device::Tensor> Acquire(int unit) override { return weights_.Offset(spec_.units()[unit].flat_begin); }
  void Release(int) override {}
  absl::StatusOr<float*> Gradient(int) override { return absl::InternalError("inference has no gradients"); }
  absl::Status DeliverGradient(int) override { return absl::InternalError("inference has no gradients"); }

 private:
  const model::ModelSpec& spec_;
  const device::Tensor weights_;
};

int64_t FirstSeen(int64_t count, int64_t context) {
  if (count <= context) return 0;
  const int64_t step = std::max<int64_t>(1, context / 4);
  return CeilDivide(count - context, step) * step;
}

InferenceModel::InferenceModel(v1::CheckpointManifest manifest, model::ModelSpec spec,
                               std::unique_ptr<device::Device> device, const LoadOptions& options)
    : manifest_(std::move(manifest)), spec_(std::move(spec)), options_(options), device_(std::move(device)) {}

InferenceModel::~InferenceModel() = default;

absl::StatusOr<std::unique_ptr<InferenceModel>> InferenceModel::Load(const std::string& step_dir,
                                                                     const device::DeviceOptions& device_options,
                                                                     const LoadOptions& options) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, checkpoint::ReadManifest(step_dir));
  if (model::IsForeign(manifest.config().model())) {
    return absl::InvalidArgumentError(absl::StrCat(step_dir, ": its model is a PyTorch module, ",
                                                   manifest.config().model().torch(),
                                                   ", which is run in Python: zerofleet.Checkpoint reads its weights"));
  }
  const int64_t most = manifest.config().model().context();
  LoadOptions with_context = options;
  if (options.context == 0) with_context.context = most;
  if (!options.dtype) {
    with_context.dtype = manifest.config().precision() == "fp32" ? device::DType::kF32 : device::DType::kBF16;
  }
  if (with_context.context > most) {
    return absl::InvalidArgumentError(absl::StrCat("a context of ", options.context, ": the model has ", most));
  }
  ZF_ASSIGN_OR_RETURN(model::ModelSpec spec, model::ModelSpec::Create(manifest.config().model()));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Device> device, device::CreateDevice(device_options));
  std::unique_ptr<InferenceModel> model(
      new InferenceModel(std::move(manifest), std::move(spec), std::move(device), with_context));
  ZF_RETURN_IF_ERROR(checkpoint::VerifyTokenizerFiles(step_dir, model->manifest_));
  model->data_ = model->manifest_.config().data();
  model->data_.set_tokenizer(checkpoint::TokenizerOf(step_dir, model->manifest_));
  if (const auto& files = model->manifest_.data().train().files(); !files.empty()) {
    model->data_.clear_train();  // a directory's name does not say what its files hold; theirs do
    for (const v1::DataFile& file : files) model->data_.add_train(file.path());
  }
  ZF_RETURN_IF_ERROR(model->Reserve());
  ZF_RETURN_IF_ERROR(model->ReadWeights(step_dir));
  return model;
}

absl::Status InferenceModel::Reserve() {
  const v1::ModelConfig& config = manifest_.config().model();
  const int64_t sequences = options_.sequences, context = options_.context;
  const device::DType dtype = *options_.dtype;
  ZF_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  // Nothing is kept for a backward, so all blocks work in one block's memory.
  ZF_ASSIGN_OR_RETURN(model_, model::Model::Create(config, {dtype, sequences, context, {.segment = 1}}, *device_));
  const int64_t cache_bytes = options_.keeps_keys_and_values ? model_->CacheBytes(context) : 0;
  memory::MemoryPlan plan{
      {{memory::Space::kDevice, memory::Category::kParameters, zero::kParametersRow,
        spec_.parameters() * device::DTypeBytes(dtype)},
       {memory::Space::kDevice, memory::Category::kActivations, zero::kActivationsRow, model_->ActivationBytes()},
       {memory::Space::kDevice, memory::Category::kActivations, kCacheRow, cache_bytes},
       {memory::Space::kDevice, memory::Category::kBuffers, zero::kModelScratchRow, model_->ScratchBytes()},
       {memory::Space::kDevice, memory::Category::kBuffers, zero::kTokensRow,
        data::ArraysPerToken(data_) * sequences * context * 4},
       {memory::Space::kDevice, memory::Category::kBuffers, kLogitsRow, config.vocab() * 4},
       {memory::Space::kDevice, memory::Category::kBuffers, kWeightStagingRow, kStagedWeights * 4},
       {memory::Space::kDevice, memory::Category::kBuffers, zero::kSumsRow, 8}}};
  ZF_ASSIGN_OR_RETURN(arena_, memory::Arena::Create(plan, memory::Space::kDevice, *device_));
  weights_ = {arena_->Take(zero::kParametersRow), dtype};
  model_->SetMemory({arena_->Take(zero::kActivationsRow), arena_->Take(zero::kModelScratchRow)});
  if (cache_bytes > 0) cache_ = arena_->Take(kCacheRow);
  tokens_ = arena_->TakeAs<int32_t>(zero::kTokensRow);
  logits_ = arena_->TakeAs<float>(kLogitsRow);
  staging_ = arena_->TakeAs<float>(kWeightStagingRow);
  loss_sum_ = arena_->TakeAs<double>(zero::kSumsRow);
  parameters_ = std::make_unique<ResidentParameters>(spec_, weights_);
  return absl::OkStatus();
}

absl::Status InferenceModel::ReadWeights(const std::string& step_dir) {
  return checkpoint::LoadWeights(
      step_dir, manifest_, {{0, spec_.parameters(), 0}}, options_.weights,
      [&](int64_t offset, std::span<const float> values) { return TakeWeights(offset, values); });
}

absl::Status InferenceModel::TakeWeights(int64_t offset, std::span<const float> values) {
  while (!values.empty()) {
    const std::span<const float> piece = values.first(std::min<size_t>(values.size(), kStagedWeights));
    device_->Copy(*stream_, staging_, piece.data(), static_cast<int64_t>(piece.size_bytes()));
    const auto count = static_cast<int64_t>(piece.size());
    device_->ops().Convert(*stream_, count, {staging_, device::DType::kF32}, weights_.Offset(offset));
    ZF_RETURN_IF_ERROR(stream_->Synchronize());
    values = values.subspan(piece.size());
    offset += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<InferenceModel::Loss> InferenceModel::MeanLoss(const data::DataPath& path,
                                                              const text::Tokenizer* tokenizer) {
  const v1::Config& config = manifest_.config();
  const int64_t context = options_.context;
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<data::Dataset> dataset,
                      data::OpenForModel(data_, path, context, config.model().vocab()));
  const int64_t arrays = dataset->packing() ? 3 : 2;
  std::vector<int32_t> staging(arrays * options_.sequences * context), counted;
  Loss loss;
  double total = 0;
  for (int64_t first = 0; first < dataset->samples(); first += options_.sequences) {
    const int64_t sequences = std::min(options_.sequences, dataset->samples() - first), tokens = sequences * context;
    ZF_RETURN_IF_ERROR(dataset->ReadBatch(
        sequences, [&](int64_t i) { return first + i; }, staging.data()));
    counted.clear();
    std::copy_if(staging.begin() + tokens, staging.begin() + 2 * tokens, std::back_inserter(counted),
                 [](int32_t target) { return target >= 0; });
    loss.tokens += std::ssize(counted);
    if (tokenizer != nullptr && !AddBytes(*tokenizer, counted, loss.bytes)) {
      tokenizer = nullptr;
      loss.bytes = 0;
    }
    device_->Copy(*stream_, tokens_, staging.data(), arrays * tokens * static_cast<int64_t>(sizeof(int32_t)));
    const int32_t* const starts = dataset->packing() ? tokens_ + 2 * tokens : nullptr;
    ZF_RETURN_IF_ERROR(model_->Evaluate({sequences, context, tokens_, tokens_ + tokens, nullptr, starts}, *parameters_,
                                        *stream_, loss_sum_));
    double sum = 0;
    device_->Copy(*stream_, &sum, loss_sum_, sizeof sum);
    ZF_RETURN_IF_ERROR(stream_->Synchronize());
    total += sum;
  }
  if (loss.tokens == 0) {
    return absl::DataLossError(absl::StrCat(path.key, ": no token of ", path.path, " counts in the loss, as the model ",
                                            "was trained (data.loss_on, data.packing)"));
  }
  loss.mean = total / static_cast<double>(loss.tokens);
  if (!std::isfinite(total)) {
    return absl::DataLossError(absl::StrCat(path.key, ": the loss of ", path.path, " is ", total,
                                            ": the checkpoint's weights, or what is computed from them, are not "
                                            "finite"));
  }
  return loss;
}

absl::Status InferenceModel::CheckTokens(std::span<const int32_t> tokens) const {
  const int64_t vocab = manifest_.config().model().vocab();
  for (int32_t token : tokens) {
    if (token >= 0 && token < vocab) continue;
    return absl::InvalidArgumentError(absl::StrCat("token ", token, " is not below the vocabulary of ", vocab));
  }
  return absl::OkStatus();
}

int64_t InferenceModel::TokensKept(std::span<const int32_t> tokens, int64_t most) const {
  const auto differ = std::mismatch(cached_.begin(), cached_.end(), tokens.begin(), tokens.end());
  return std::min<int64_t>(most, differ.first - cached_.begin());
}

absl::Status InferenceModel::ComputeLogits(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  const model::KeyValueCache cache{cache_, options_.context, TokensKept(tokens, count - 1)};
  const std::span<const int32_t> rest = tokens.subspan(cache.past);
  ZF_RETURN_IF_ERROR(CheckTokens(rest));
  cached_.resize(cache.past);
  device_->Copy(*stream_, tokens_, rest.data(), static_cast<int64_t>(rest.size_bytes()));
  const model::MicroBatch batch{1, count - cache.past, tokens_, nullptr, cache_ == nullptr ? nullptr : &cache};
  ZF_RETURN_IF_ERROR(model_->Logits(batch, *parameters_, *stream_, {logits_, device::DType::kF32}));
  ZF_RETURN_IF_ERROR(stream_->Synchronize());
  if (cache_ != nullptr) cached_.assign(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> InferenceModel::NextLogits(std::span<const int32_t> tokens) {
  if (tokens.empty()) return absl::InvalidArgumentError("no tokens to continue; the prompt must not be empty");
  tokens = tokens.subspan(FirstSeen(static_cast<int64_t>(tokens.size()), options_.context));
  ZF_RETURN_IF_ERROR(ComputeLogits(tokens));
  std::vector<float> logits(manifest_.config().model().vocab());
  device_->Copy(*stream_, logits.data(), logits_, static_cast<int64_t>(logits.size() * sizeof(float)));
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

absl::StatusOr<double> InferenceModel::Evaluated(std::span<const int32_t> inputs, const model::KeyValueCache* cache) {
  const auto count = static_cast<int64_t>(inputs.size());
  device_->Copy(*stream_, tokens_, inputs.data(), (count + 1) * static_cast<int64_t>(sizeof(int32_t)));
  const model::MicroBatch batch{1, count, tokens_, tokens_ + 1, cache};
  ZF_RETURN_IF_ERROR(model_->Evaluate(batch, *parameters_, *stream_, loss_sum_));
  double sum = 0;
  device_->Copy(*stream_, &sum, loss_sum_, sizeof sum);
  ZF_RETURN_IF_ERROR(stream_->Synchronize());
  return sum;
}

absl::StatusOr<double> InferenceModel::LossWithin(std::span<const int32_t> window, int64_t first) {
  const std::span<const int32_t> inputs = window.first(window.size() - 1);
  if (cache_ == nullptr) {
    ZF_ASSIGN_OR_RETURN(const double all, Evaluated(inputs, nullptr));
    if (first == 1) return all;
    ZF_ASSIGN_OR_RETURN(const double before, Evaluated(inputs.first(first - 1), nullptr));
    return all - before;
  }
  const int64_t past = first - 1;
  if (past > 0 && TokensKept(inputs, past) < past) ZF_RETURN_IF_ERROR(ComputeLogits(inputs.first(past)));
  cached_.resize(past);
  const model::KeyValueCache cache{cache_, options_.context, past};
  ZF_ASSIGN_OR_RETURN(const double loss, Evaluated(inputs.subspan(past), &cache));
  cached_.assign(inputs.begin(), inputs.end());
  return loss;
}

// Tokens whose windows begin at the same token are computed in one pass.
absl::StatusOr<double> InferenceModel::ContinuationLoss(std::span<const int32_t> before,
                                                        std::span<const int32_t> continuation) {
  if (before.empty() || continuation.empty())
    return absl::InvalidArgumentError("no tokens to continue, or none that do");
  std::vector<int32_t> all(before.begin(), before.end());
  all.insert(all.end(), continuation.begin(), continuation.end());
  ZF_RETURN_IF_ERROR(CheckTokens(all));
  const auto count = static_cast<int64_t>(all.size());
  double sum = 0;
  for (int64_t first = static_cast<int64_t>(before.size()); first < count;) {
    const int64_t begin = FirstSeen(first, options_.context);
    int64_t end = first + 1;
    while (end < count && FirstSeen(end, options_.context) == begin) ++end;
    const std::span<const int32_t> window = std::span<const int32_t>(all).subspan(begin, end - begin);
    ZF_ASSIGN_OR_RETURN(const double loss, LossWithin(window, first - begin));
    sum += loss;
    first = end;
  }
  if (!std::isfinite(sum)) return absl::DataLossError("a loss is not finite: the checkpoint's training has diverged");
  return sum;
}

}  // namespace zerofleet::inference
