// A model in parts, each on a thread, against the whole model: its loss, and its gradients put together.
#include "worker/zero/tensor_group.h"

#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/in_process.h"
#include "worker/model/model.h"
#include "worker/model/model_testing.h"
#include "worker/parallel/mesh.h"

namespace zerofleet::zero {
namespace {

class MemoryParameters : public model::ParameterSource {
 public:
  MemoryParameters(const model::ModelSpec& spec, std::vector<float> values)
      : spec_(spec), values_(std::move(values)), gradients_(values_.size()) {}
  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    return device::Tensor{values_.data() + spec_.units()[unit].flat_begin, device::DType::kF32};
  }
  void Release(int) override {}
  absl::StatusOr<float*> Gradient(int unit) override { return gradients_.data() + spec_.units()[unit].flat_begin; }
  absl::Status DeliverGradient(int) override { return absl::OkStatus(); }
  const std::vector<float>& gradients() const { return gradients_; }

 private:
  const model::ModelSpec& spec_;
  std::vector<float> values_, gradients_;
};

struct Pass {
  double loss = 0, evaluated = 0;
  std::vector<float> gradients;  // over the part's flat space
};

// With sequence parallelism, or without.
class ModelInPartsTest : public testing::TestWithParam<bool> {
 protected:
  ModelInPartsTest() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 0.3f);
    values_.resize(static_cast<size_t>(whole_.parameters()));
    for (float& value : values_) value = normal(random);
    for (int32_t& token : tokens_) token = static_cast<int32_t>(random() % config_.vocab());
  }

  Pass Run(const model::ModelPart& part, bool sequence, const model::Checkpointing& checkpointing,
           model::TensorGroup* group) const {
    const model::ModelSpec spec = *model::ModelSpec::Create(config_, part);
    std::vector<float> mine(static_cast<size_t>(spec.parameters()));
    for (const coordinator::PlacedRange& range : spec.ToWhole({{0, spec.parameters(), 0}})) {
      std::copy_n(&values_[range.flat_begin], range.elements(), &mine[range.offset]);
    }
    const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
    const std::unique_ptr<device::Stream> stream = *device->CreateStream();
    const std::unique_ptr<model::Model> model = *model::Model::Create(
        config_, {device::DType::kF32, 2, 8, checkpointing, {.parts = part.count, .sequence = sequence}}, *device);
    std::vector<std::byte> activations(model->ActivationBytes()), scratch(model->ScratchBytes());
    model->SetMemory({activations.data(), scratch.data()});
    model->SetTensorGroup(group);
    MemoryParameters parameters(spec, std::move(mine));
    const model::MicroBatch batch = {2, 4, tokens_.data(), tokens_.data() + 10};
    const float scale = 0.5f;
    Pass pass;
    EXPECT_TRUE(model->Train(batch, &scale, parameters, *stream, &pass.loss, [] {}).ok());
    EXPECT_TRUE(model->Evaluate(batch, parameters, *stream, &pass.evaluated).ok());
    pass.gradients = parameters.gradients();
    return pass;
  }

  std::vector<Pass> RunParts(int count, bool sequence, const model::Checkpointing& checkpointing) const {
    auto communicators = collective::CreateInProcessGroup(parallel::kTensorGroup, count);
    std::vector<Pass> passes(count);
    std::vector<std::thread> threads;
    for (int index = 0; index < count; ++index) {
      threads.emplace_back([&, index] {
        const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
        const std::unique_ptr<device::Stream> stream = *device->CreateStream();
        PhaseMarks marks(*stream);
        CommunicatorTensorGroup group(*communicators[index], marks);
        passes[index] = Run({index, count}, sequence, checkpointing, &group);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return passes;
  }

  const v1::ModelConfig config_ = model::TestModelConfig(3, 24, 4, 8, 53);
  const model::ModelSpec whole_ = *model::ModelSpec::Create(config_);
  std::vector<float> values_;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(20);
};

TEST_P(ModelInPartsTest, LossAndGradientsAreThoseOfTheWhole) {
  const Pass whole = Run({}, false, {}, nullptr);
  double largest = 0;
  for (float gradient : whole.gradients) largest = std::max<double>(largest, std::abs(gradient));
  for (int count : {2, 4}) {
    const std::vector<Pass> parts = RunParts(count, GetParam(), {});
    for (int index = 0; index < count; ++index) {
      const Pass& part = parts[index];
      EXPECT_NEAR(part.loss, whole.loss, 1e-6 * whole.loss);
      EXPECT_EQ(part.loss, parts[0].loss) << "the same bits on every rank";
      EXPECT_EQ(part.evaluated, part.loss);
      const model::ModelSpec spec = *model::ModelSpec::Create(config_, {index, count});
      std::vector<bool> real(part.gradients.size());
      for (const coordinator::PlacedRange& range : spec.ToWhole({{0, spec.parameters(), 0}})) {
        for (int64_t i = 0; i < range.elements(); ++i) {
          real[range.offset + i] = true;
          ASSERT_NEAR(part.gradients[range.offset + i], whole.gradients[range.flat_begin + i], 1e-5 * largest)
              << count << " parts, part " << index << ", element " << range.offset + i;
        }
      }
      for (size_t i = 0; i < real.size(); ++i) {
        ASSERT_TRUE(real[i] || part.gradients[i] == 0.0f) << "padding has a gradient";
      }
      for (const model::TensorSpec& tensor : spec.tensors()) {
        if (tensor.cut.along != model::Cut::Along::kNothing) continue;
        for (int64_t i = tensor.flat_begin; i < tensor.flat_end; ++i) {
          ASSERT_EQ(part.gradients[i], parts[0].gradients[i]) << tensor.name << " is on every rank with the same bits";
        }
      }
    }
  }
}

TEST_P(ModelInPartsTest, CheckpointingKeepsTheBits) {
  const std::vector<Pass> kept = RunParts(2, GetParam(), {});
  for (const model::Checkpointing& checkpointing :
       {model::Checkpointing{.segment = 1}, {.segment = 2}, {.selective = true}}) {
    const std::vector<Pass> again = RunParts(2, GetParam(), checkpointing);
    for (int index = 0; index < 2; ++index) {
      EXPECT_EQ(again[index].loss, kept[index].loss);
      EXPECT_EQ(again[index].gradients, kept[index].gradients);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sequences, ModelInPartsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Divided" : "Whole"; });

}  // namespace
}  // namespace zerofleet::zero
