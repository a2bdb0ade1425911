// What the tests of this room share: a directory of their own, a small model, and fleets that save it.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_TEST_SUPPORT_H_
#define ZEROFLEET_WORKER_CHECKPOINT_TEST_SUPPORT_H_

#include <string>
#include <vector>

#include "base/directory_testing.h"
#include "base/file.h"
#include "coordinator/partition.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/model/spec.h"

namespace zerofleet::checkpoint {

class CheckpointTest : public DirectoryTest {
 protected:
  // Sizes that no world size divides.
  static v1::Config SmallConfig() {
    v1::Config config;
    v1::ModelConfig* model = config.mutable_model();
    model->set_family("gpt2");
    model->set_layers(2);
    model->set_hidden(15);
    model->set_heads(3);
    model->set_kv_heads(3);
    model->set_intermediate(60);
    model->set_context(7);
    model->set_vocab(31);
    config.mutable_parallel()->set_workers(2);
    config.mutable_parallel()->set_zero_stage(2);
    config.mutable_parallel()->set_tensor(1);
    config.set_precision("bf16");
    config.mutable_activation()->set_checkpointing("none");
    config.mutable_reduce()->set_every("micro_batch");
    config.mutable_batch()->set_global_sequences(4);
    config.mutable_batch()->set_micro_sequences(2);
    config.mutable_optimizer()->set_name("adamw");
    config.mutable_optimizer()->set_learning_rate(1e-3);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_epsilon(1e-8);
    config.mutable_schedule()->set_decay("cosine");
    config.set_steps(1000);
    config.mutable_checkpoint()->set_keep(3);
    config.set_seed(5);
    return config;
  }
  static model::ModelSpec SmallSpec() { return model::ModelSpec::Create(SmallConfig().model()).value(); }

  // The state of element `i` in vector `vector` of the optimizer's table; all values differ.
  static float Value(size_t vector, int64_t i) {
    return static_cast<float>(static_cast<int64_t>(vector) * 1000000 + i) * 0.125f;
  }
  static std::vector<float> State(size_t vector, const std::vector<coordinator::PlacedRange>& ranges) {
    std::vector<float> state;
    for (const coordinator::PlacedRange& range : ranges) {
      for (int64_t i = range.flat_begin; i < range.flat_end; ++i) state.push_back(Value(vector, i));
    }
    return state;
  }

  // Writes a rank's state with WriteShard.
  static absl::StatusOr<v1::ShardFile> WriteState(const std::string& partial_dir, int rank,
                                                  const std::vector<coordinator::PlacedRange>& ranges,
                                                  const optim::OptimizerRow& optimizer = optim::Optimizers().front()) {
    std::vector<std::vector<float>> states;
    for (size_t v = 0; v < optimizer.vectors.size(); ++v) states.push_back(State(v, ranges));
    return WriteShard(partial_dir, rank, ranges, optimizer, {states.begin(), states.end()});
  }

  static void SetTensors(const model::ModelSpec& spec, v1::CheckpointManifest* manifest) {
    manifest->clear_tensors();
    for (const model::TensorSpec& tensor : spec.tensors()) {
      v1::TensorEntry* entry = manifest->add_tensors();
      entry->set_name(tensor.name);
      entry->set_dtype(kStoredDType);
      for (int64_t side : tensor.shape) entry->add_shape(side);
      entry->set_flat_begin(tensor.flat_begin);
      entry->set_flat_end(tensor.flat_end);
    }
  }

  // The manifest of the small model at `step`, without files.
  static v1::CheckpointManifest Manifest(int64_t step, int world_size) {
    v1::CheckpointManifest manifest;
    manifest.set_format_version(FormatVersionOf(SmallConfig()));
    manifest.set_step(step);
    *manifest.mutable_config() = SmallConfig();
    SetTensors(SmallSpec(), &manifest);
    manifest.mutable_data_cursor()->set_samples_consumed(step * SmallConfig().batch().global_sequences());
    manifest.mutable_loss_scale()->set_scale(1);
    manifest.mutable_random()->set_seed(SmallConfig().seed());
    manifest.set_world_size(world_size);
    manifest.set_zero_stage(SmallConfig().parallel().zero_stage());
    return manifest;
  }

  // The state that a rank of part `part` stores: values by the elements' places in the whole model, 0 in the padding.
  static std::vector<float> StateOfPart(size_t vector, const model::ModelSpec& part,
                                        const std::vector<coordinator::PlacedRange>& ranges) {
    int64_t elements = 0;
    for (const coordinator::PlacedRange& range : ranges) elements += range.elements();
    std::vector<float> state(elements);
    for (const coordinator::PlacedRange& range : part.ToWhole(ranges)) {
      for (int64_t i = 0; i < range.elements(); ++i) state[range.offset + i] = Value(vector, range.flat_begin + i);
    }
    return state;
  }

  // Like WriteShards, for tensor groups of `tensor` ranks.
  static v1::CheckpointManifest WriteParts(const std::string& step_dir, int64_t step, int world_size, int tensor) {
    v1::CheckpointManifest manifest = Manifest(step, world_size);
    manifest.mutable_config()->mutable_parallel()->set_tensor(tensor);
    manifest.set_format_version(FormatVersionOf(manifest.config()));
    const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
    for (int rank = 0; rank < world_size; ++rank) {
      const model::ModelSpec part = model::ModelSpec::Create(SmallConfig().model(), PartOf(manifest, rank)).value();
      const auto ranges = coordinator::PartitionMap(part.units(), world_size / tensor).StoredRanges(rank / tensor);
      std::vector<std::vector<float>> states;
      for (size_t v = 0; v < optimizer.vectors.size(); ++v) states.push_back(StateOfPart(v, part, ranges));
      const auto file = WriteShard(PartialDirectory(step_dir, manifest.generation()), rank, ranges, optimizer,
                                   {states.begin(), states.end()});
      EXPECT_TRUE(file.ok()) << file.status();
      *manifest.add_files() = *file;
    }
    return manifest;
  }

  // Does what a fleet of `world_size` ranks does to save the small model as `step_dir`, except the commit.
  static v1::CheckpointManifest WriteShards(const std::string& step_dir, int64_t step, int world_size) {
    v1::CheckpointManifest manifest = Manifest(step, world_size);
    coordinator::PartitionMap map(SmallSpec().units(), world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      std::vector<coordinator::PlacedRange> ranges = map.StoredRanges(rank);
      auto file =
          WriteState(PartialDirectory(step_dir, manifest.generation()), rank, ranges, StoredOptimizer(manifest));
      EXPECT_TRUE(file.ok()) << file.status();
      *manifest.add_files() = *file;
    }
    return manifest;
  }
  std::string Save(int64_t step, int world_size) const {
    std::string step_dir = StepDirectory(directory_, step);
    absl::Status committed = CommitCheckpoint(step_dir, WriteShards(step_dir, step, world_size));
    EXPECT_TRUE(committed.ok()) << committed;
    return step_dir;
  }

  static void Overwrite(const std::string& path, const std::string& contents) {
    ASSERT_TRUE(WriteFileAtomically(path, contents).ok());
  }
  static std::string Contents(const std::string& path) { return ReadSmallFile(path, 1 << 24).value(); }
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_TEST_SUPPORT_H_
