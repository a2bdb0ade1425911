// A trained model without training: its loss on a file, its next token. One process, whole parameters, in fp32 or bf16.
//
// The keys and values of the last call's tokens are kept (device::CacheOps): those tokens that the next call begins
// with, too, are not computed again.
#ifndef ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_
#define ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/checkpoint/weights_of.h"
#include "worker/data/dataset.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/text/tokenizer.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::inference {

struct LoadOptions {
  int64_t sequences = 1;  // how many MeanLoss computes in one pass, at most
  int64_t context = 0;    // how many tokens the model sees; 0: as many as it can
  // The type of weights and activations; nullopt: fp32 for a model trained in it, else bf16.
  std::optional<device::DType> dtype = device::DType::kF32;
  checkpoint::WeightsOf weights = checkpoint::WeightsOf::kStep;
  bool keeps_keys_and_values = true;  // false: NextLogits computes every token again
};

// The number of the first of `count` tokens that a model sees. Where the context is shorter, the model's window moves
// on by a quarter of the context at a time, since with every move all tokens are computed again at their new positions.
int64_t FirstSeen(int64_t count, int64_t context);

class InferenceModel {
 public:
  // Reads the weights of a committed checkpoint. InvalidArgument for a context longer than the model's, or for a model
  // that is a PyTorch module.
  static absl::StatusOr<std::unique_ptr<InferenceModel>> Load(const std::string& step_dir,
                                                              const device::DeviceOptions& device,
                                                              const LoadOptions& options);
  ~InferenceModel();

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  // The data's configuration for a reader that has only the checkpoint: with the tokenizer that the checkpoint carries.
  const v1::DataConfig& data() const { return data_; }

  struct Loss {
    double mean = 0;     // nats per token
    int64_t tokens = 0;  // tokens that count
    int64_t bytes = 0;   // bytes of their text; 0 if unknown
  };
  // The loss over every sample of a file or directory, as training sees it (OpenForModel): with training's packing, and
  // over the targets that count in training. `tokenizer`, which may be null, gives the bytes of the predicted tokens.
  absl::StatusOr<Loss> MeanLoss(const data::DataPath& path, const text::Tokenizer* tokenizer = nullptr);

  // The scores of each possible token after `tokens`; only those from FirstSeen on are used. InvalidArgument if there
  // are none, or if one of those ids is not in the vocabulary; DataLoss for scores that are not finite.
  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int32_t> tokens);

  // The sum of the losses, in nats, of the tokens of `continuation`, each given `before` and the continuation up to it,
  // but no more than the context, as in NextLogits. InvalidArgument if one of the two is empty, or for an id that is
  // not in the vocabulary; DataLoss if the sum is not finite.
  absl::StatusOr<double> ContinuationLoss(std::span<const int32_t> before, std::span<const int32_t> continuation);

 private:
  class ResidentParameters;

  InferenceModel(v1::CheckpointManifest manifest, model::ModelSpec spec, std::unique_ptr<device::Device> device,
                 const LoadOptions& options);
  absl::Status Reserve();
  absl::Status ReadWeights(const std::string& step_dir);
  // Stores weights from `offset` on; `values` are as read, fp32.
  absl::Status TakeWeights(int64_t offset, std::span<const float> values);
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;
  // How many of `tokens` need not be computed, at most `most`: those that are in the cache.
  int64_t TokensKept(std::span<const int32_t> tokens, int64_t most) const;
  // The loss of the tokens of `window` from the one at `first` (at least 1) on; the model sees the whole window at
  // once.
  absl::StatusOr<double> LossWithin(std::span<const int32_t> window, int64_t first);
  // The loss of a pass over `inputs`, which follow the cache's tokens. The targets are the tokens one place further, so
  // one more token must follow `inputs` in memory.
  absl::StatusOr<double> Evaluated(std::span<const int32_t> inputs, const model::KeyValueCache* cache);
  // Computes the scores of the token after `tokens`, of which there are at most `context`, into logits_.
  absl::Status ComputeLogits(std::span<const int32_t> tokens);

  const v1::CheckpointManifest manifest_;
  v1::DataConfig data_;
  const model::ModelSpec spec_;
  const LoadOptions options_;  // with context and dtype filled in
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<memory::Arena> arena_;
  std::unique_ptr<ResidentParameters> parameters_;
  // In device memory.
  device::Tensor weights_;
  float* staging_ = nullptr;
  int32_t* tokens_ = nullptr;
  float* logits_ = nullptr;
  double* loss_sum_ = nullptr;
  void* cache_ = nullptr;        // null: nothing is kept
  std::vector<int32_t> cached_;  // the tokens whose keys and values cache_ holds
};

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_
