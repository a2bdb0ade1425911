// A trained model without training: its loss on a file, its next token. One process, whole parameters, fp32.
#ifndef ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_
#define ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::inference {

class InferenceModel {
 public:
  // Reads the weights of a committed checkpoint. `sequences` bounds the batch of MeanLoss. `context`, unless it is 0,
  // is how many tokens the model sees; InvalidArgument if it has fewer.
  static absl::StatusOr<std::unique_ptr<InferenceModel>> Load(const std::string& step_dir,
                                                              const device::DeviceOptions& device, int64_t sequences,
                                                              int64_t context = 0);
  ~InferenceModel();

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  // The data's configuration as whoever has the checkpoint alone reads it: with the tokenizer that it carries.
  const v1::DataConfig& data() const { return data_; }

  struct Loss {
    double mean = 0;  // nats per token
    int64_t tokens = 0;
  };
  // Over every sample of a file or directory, in the format that the model was trained on (OpenForModel).
  absl::StatusOr<Loss> MeanLoss(const data::DataPath& path);

  // Scores of the token after `tokens`; only the last `context` of them are used. InvalidArgument if there are none, or
  // if one of those ids is not in the vocabulary; DataLoss for scores that are not finite.
  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int32_t> tokens);

 private:
  class ResidentParameters;

  InferenceModel(v1::CheckpointManifest manifest, model::ModelSpec spec, std::unique_ptr<device::Device> device,
                 int64_t sequences, int64_t context);
  absl::Status ReadWeights(const std::string& step_dir);

  const v1::CheckpointManifest manifest_;
  v1::DataConfig data_;
  const model::ModelSpec spec_;
  const int64_t sequences_, context_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<memory::Arena> arena_;
  std::unique_ptr<ResidentParameters> parameters_;
  int32_t* tokens_ = nullptr;   // device
  float* logits_ = nullptr;     // device
  double* loss_sum_ = nullptr;  // device
};

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_INFERENCE_H_
