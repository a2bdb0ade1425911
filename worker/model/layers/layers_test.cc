// Rows in another order and of other kinds than any family's: they train, and recomputation changes nothing.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/declared_units.h"
#include "worker/model/model_testing.h"
#include "worker/model/transformer.h"

namespace zerofleet::model {
namespace {

// The MLP first; queries, keys and values as tensors of their own; few biases, so that GELU is an op of its own; and a
// third branch.
constexpr BlockRow kTestedBlock[] = {
    Norm{NormKind::kLayer, "a"},
    Spread{{{"up", Width::kIntermediate}}, Bias::kNone},
    Activate{ActivationKind::kGelu},
    Project{"down", Width::kIntermediate, Bias::kBias},
    Norm{NormKind::kLayer, "b"},
    Spread{{{"q", Width::kQueries}, {"k", Width::kKeysValues}, {"v", Width::kKeysValues}}, Bias::kBias},
    Attend{},
    Project{"o", Width::kQueries, Bias::kNone},
    Norm{NormKind::kLayer, "c"},
    Spread{{{"up_2", Width::kIntermediate}}, Bias::kBias},
    Activate{ActivationKind::kGelu},
    Project{"down_2", Width::kIntermediate, Bias::kNone},
};
constexpr FamilyRows kTestedRows = {{"tokens", "positions"}, kTestedBlock, {{NormKind::kLayer, "d"}, nullptr}, 1e-5f};
constexpr float kUnscaled = 1.0f;

class OtherRowsTest : public testing::Test {
 protected:
  OtherRowsTest() {
    Add(units_.embedding, "");
    for (int64_t layer = 0; layer < config_.layers(); ++layer) Add(units_.block, std::to_string(layer) + ".");
    Add(units_.head, "");
    parameters_ = std::make_unique<MemoryParameters>(begins_, elements_);
    std::mt19937 random(3);
    for (int32_t& token : tokens_) token = static_cast<int32_t>(random() % config_.vocab());
  }

  struct Named {
    std::string name;
    int64_t begin, elements;
  };
  void Add(const Declaration& unit, const std::string& prefix) {
    begins_.push_back(elements_);
    for (const DeclaredTensor& tensor : unit.tensors()) {
      tensors_.push_back({prefix + tensor.name, elements_, ElementsOf(tensor.shape)});
      elements_ += tensors_.back().elements;
    }
  }

  void Make(const Checkpointing& checkpointing) {
    model_ = std::make_unique<Transformer>(
        kTestedRows, config_, /*first_trained=*/0,
        ModelRun{.dtype = device::DType::kF32, .sequences = 2, .time = 6, .checkpointing = checkpointing}, *device_);
    activations_.assign(model_->ActivationBytes(), {});
    scratch_.assign(model_->ScratchBytes(), {});
    model_->SetMemory({activations_.data(), scratch_.data()});
    parameters_ = std::make_unique<MemoryParameters>(begins_, elements_);
  }

  MicroBatch Batch() const { return {2, 5, tokens_.data(), tokens_.data() + 10}; }
  double Train() {
    double loss = 0;
    EXPECT_TRUE(model_->Train(Batch(), &kUnscaled, *parameters_, *stream_, &loss, [] {}).ok());
    return loss;
  }
  double Loss() {
    double loss = 0;
    EXPECT_TRUE(model_->Evaluate(Batch(), *parameters_, *stream_, &loss).ok());
    return loss;
  }

  const v1::ModelConfig config_ = TestModelConfig(2, 12, 3, 6, 17);
  const DeclaredUnits units_ = DeclareUnits(kTestedRows, Sizes(config_));
  const std::unique_ptr<device::Device> device_ = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const std::unique_ptr<device::Stream> stream_ = *device_->CreateStream();
  std::vector<int64_t> begins_;
  int64_t elements_ = 0;
  std::vector<Named> tensors_;
  std::unique_ptr<MemoryParameters> parameters_;
  std::unique_ptr<Transformer> model_;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(20);
  std::vector<std::byte> activations_, scratch_;
};

TEST_F(OtherRowsTest, GradientsMatchFiniteDifferencesTensorByTensor) {
  Make({});
  EXPECT_EQ(Train(), Loss());
  for (const Named& tensor : tensors_) {
    ExpectGradientOf(tensor.name, tensor.begin, tensor.elements, *parameters_, [&] { return Loss(); });
  }
}

TEST_F(OtherRowsTest, CheckpointingChangesNoBit) {
  Make({});
  const double loss = Train();
  const std::vector<float> gradients = parameters_->gradients();
  for (const Checkpointing& checkpointing : {Checkpointing{.segment = 1}, Checkpointing{.selective = true}}) {
    Make(checkpointing);
    EXPECT_EQ(Train(), loss);
    EXPECT_EQ(parameters_->gradients(), gradients);
  }
}

}  // namespace
}  // namespace zerofleet::model
