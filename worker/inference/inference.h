// A trained model without training: its loss on a file, its next token. One process, whole parameters, of fp32 or bf16.
//
// Keys and values of the tokens that it has seen last are kept (device::CacheOps): of the next call's tokens, those
// that begin alike are not computed again.
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
  int64_t sequences = 1;  // of MeanLoss, at most, in one pass
  int64_t context = 0;    // how many tokens the model sees; 0: as many as it can
  // The type of weights and activations; nullopt: fp32 for a model trained in it, else bf16.
  std::optional<device::DType> dtype = device::DType::kF32;
  checkpoint::WeightsOf weights = checkpoint::WeightsOf::kStep;
  bool keeps_keys_and_values = true;  // false: NextLogits computes every token again
};

// The first of `count` tokens that a model sees. Where its context is shorter it moves on by a quarter of the context
// at a time, since with every move all tokens are computed again at their new positions.
int64_t FirstSeen(int64_t count, int64_t context);

class InferenceModel {
 public:
  // Reads the weights of a committed checkpoint. InvalidArgument if the model has not such a context.
  static absl::StatusOr<std::unique_ptr<InferenceModel>> Load(const std::string& step_dir,
                                                              const device::DeviceOptions& device,
                                                              const LoadOptions& options);
  ~InferenceModel();

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  // The data's configuration as whoever has the checkpoint alone reads it: with the tokenizer that it carries.
  const v1::DataConfig& data() const { return data_; }

  struct Loss {
    double mean = 0;     // nats per token
    int64_t tokens = 0;  // that count
    int64_t bytes = 0;   // of their text; 0 where that is not known
  };
  // Over every sample of a file or directory, as training sees it (OpenForModel): with its packing, and over what
  // counts there. `tokenizer`, which may be null, counts the bytes of what is predicted.
  absl::StatusOr<Loss> MeanLoss(const data::DataPath& path, const text::Tokenizer* tokenizer = nullptr);

  // Scores of the token after `tokens`; only those from FirstSeen on are used. InvalidArgument if there are none, or if
  // one of those ids is not in the vocabulary; DataLoss for scores that are not finite.
  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int32_t> tokens);

  // The sum of the losses of the tokens of `continuation`, in nats, each behind all that is before it and `before`; but
  // of no more than the context, as in NextLogits. InvalidArgument if one of the two is empty, or for an id that is not
  // in the vocabulary; DataLoss if it is not finite.
  absl::StatusOr<double> ContinuationLoss(std::span<const int32_t> before, std::span<const int32_t> continuation);

 private:
  class ResidentParameters;

  InferenceModel(v1::CheckpointManifest manifest, model::ModelSpec spec, std::unique_ptr<device::Device> device,
                 const LoadOptions& options);
  absl::Status Reserve();
  absl::Status ReadWeights(const std::string& step_dir);
  // The weights from `offset` on, as read: fp32.
  absl::Status TakeWeights(int64_t offset, std::span<const float> values);
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;
  // How many of `tokens` need not be computed, at most `most`: those that are in the cache.
  int64_t TokensKept(std::span<const int32_t> tokens, int64_t most) const;
  // The loss of the tokens of `window` from `first`, at least 1, on, all of which the model sees at once.
  absl::StatusOr<double> LossWithin(std::span<const int32_t> window, int64_t first);
  // A pass over `inputs` behind the cache, whose targets are the tokens one further.
  absl::StatusOr<double> Evaluated(std::span<const int32_t> inputs, const model::KeyValueCache* cache);
  // Puts the scores behind `tokens`, of which there are at most `context`, in logits_.
  absl::Status ComputeLogits(std::span<const int32_t> tokens);

  const v1::CheckpointManifest manifest_;
  v1::DataConfig data_;
  const model::ModelSpec spec_;
  const LoadOptions options_;  // with the context
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
  std::vector<int32_t> cached_;  // the tokens whose keys and values it holds
};

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_
