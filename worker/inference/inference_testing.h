// A small model of random weights in a checkpoint.
#ifndef ZEROFLEET_WORKER_INFERENCE_INFERENCE_TESTING_H_
#define ZEROFLEET_WORKER_INFERENCE_INFERENCE_TESTING_H_

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "worker/checkpoint/test_support.h"
#include "worker/inference/inference.h"

namespace zerofleet::inference {

class RandomModelTest : public checkpoint::CheckpointTest {
 protected:
  // Saves a model with a context of 7; returns the checkpoint's directory. `edit` changes the manifest.
  std::string SaveModel(int64_t vocab, const std::function<void(v1::CheckpointManifest&)>& edit = nullptr) const {
    v1::CheckpointManifest manifest = Manifest(3, 1);
    manifest.mutable_config()->mutable_model()->set_vocab(vocab);
    const model::ModelSpec spec = model::ModelSpec::Create(manifest.config().model()).value();
    SetTensors(spec, &manifest);
    const auto ranges = coordinator::PartitionMap(spec.units(), 1).StoredRanges(0);
    const optim::OptimizerRow& optimizer = optim::Optimizers().front();
    std::vector<std::vector<float>> states;
    for (size_t v = 0; v < optimizer.vectors.size(); ++v) states.push_back(State(v, ranges));
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0.0f, 0.4f);
    for (float& weight : states.front()) weight = normal(random);
    std::string step_dir = checkpoint::StepDirectory(directory_, 3);
    const auto file = checkpoint::WriteShard(checkpoint::PartialDirectory(step_dir, manifest.generation()), 0, ranges,
                                             optimizer, {states.begin(), states.end()});
    EXPECT_TRUE(file.ok()) << file.status();
    if (file.ok()) *manifest.add_files() = *file;
    if (edit) edit(manifest);
    const absl::Status committed = checkpoint::CommitCheckpoint(step_dir, manifest);
    EXPECT_TRUE(committed.ok()) << committed;
    return step_dir;
  }

  static std::unique_ptr<InferenceModel> LoadModel(const std::string& step_dir, const LoadOptions& options,
                                                   const std::string& device = "cpu") {
    return InferenceModel::Load(step_dir, {.kind = device, .threads = 2}, options).value();
  }
};

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_INFERENCE_TESTING_H_
