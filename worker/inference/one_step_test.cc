// A step's loss falls along its gradients, its sequences count alike, and its update is the optimizer's.
#include "worker/inference/one_step.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/model/spec.h"

namespace zerofleet::inference {
namespace {

class OneStepTest : public testing::Test {
 protected:
  OneStepTest() {
    update_.model = model::TestModelConfig(1, 8, 2, 4, 16);
    update_.optimizer.set_name("adamw");
    update_.optimizer.set_learning_rate(1e-2);
    update_.optimizer.set_beta1(0.9);
    update_.optimizer.set_beta2(0.95);
    update_.optimizer.set_epsilon(1e-8);
    const auto size = static_cast<size_t>(model::ModelSpec::Create(update_.model)->parameters());
    update_.states.assign(3, std::vector<float>(size));
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 0.3f);
    for (float& weight : update_.states[0]) weight = normal(random);
    weights_ = update_.states[0];
  }

  BatchGradients Gradients(std::vector<float> weights) {
    return GradientsOf(update_.model, weights, batch_, *device_).value();
  }
  std::string Refusal() {
    return std::string(GradientsOf(update_.model, weights_, batch_, *device_).status().message());
  }

  const std::unique_ptr<device::Device> device_ = device::CreateDevice({.kind = "cpu"}).value();
  UpdateToDo update_;
  std::vector<float> weights_;
  StepBatch batch_{
      .sequences = 2, .time = 4, .inputs = {1, 2, 3, 4, 5, 6, 7, 8}, .targets = {2, 3, 4, -1, 6, 7, 8, -1}};
};

TEST_F(OneStepTest, GradientsAreThoseOfTheMeanLoss) {
  constexpr float kStep = 1e-3f;
  BatchGradients found = Gradients(weights_);
  double squares = 0;
  for (const float gradient : found.gradients) squares += static_cast<double>(gradient) * gradient;
  const double norm = std::sqrt(squares);
  std::vector<float> along = weights_;
  for (size_t i = 0; i < along.size(); ++i) along[i] -= kStep * found.gradients[i] / static_cast<float>(norm);
  EXPECT_NEAR((found.loss - Gradients(along).loss) / kStep, norm, 2e-2 * norm);
  // Each sequence counts by its targets.
  const StepBatch both = batch_;
  batch_ = {.sequences = 1, .time = 4, .inputs = {1, 2, 3, 4}, .targets = {2, 3, 4, -1}};
  const double first = Gradients(weights_).loss;
  batch_ = {.sequences = 1, .time = 4, .inputs = {5, 6, 7, 8}, .targets = {6, 7, 8, -1}};
  EXPECT_NEAR((first + Gradients(weights_).loss) / 2, found.loss, 1e-6);
}

TEST_F(OneStepTest, UpdatesAreTheOptimizers) {
  BatchGradients found = Gradients(weights_);
  const double norm = UpdateWith(found.gradients, update_, *device_).value();
  // AdamW's first step moves every weight that has a gradient by the learning rate.
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (std::abs(found.gradients[i]) < 1e-4) continue;
    EXPECT_NEAR(std::abs(update_.states[0][i] - weights_[i]), 1e-2, 1e-4);
    EXPECT_NEAR(update_.states[1][i], 0.1 * found.gradients[i], 1e-6);
  }
  const std::vector<std::vector<float>> plain = update_.states;
  const auto begin_again = [&] {
    update_.states.assign(3, std::vector<float>(weights_.size()));
    update_.states[0] = weights_;
  };
  begin_again();
  update_.optimizer.set_grad_clip(norm / 2);
  EXPECT_EQ(*UpdateWith(found.gradients, update_, *device_), norm);
  const auto largest = std::max_element(found.gradients.begin(), found.gradients.end()) - found.gradients.begin();
  EXPECT_NEAR(update_.states[1][largest], plain[1][largest] / 2, 1e-6);
  begin_again();
  update_.optimizer.set_grad_clip(0);
  update_.optimizer.set_weight_decay(0.5);
  ASSERT_TRUE(UpdateWith(found.gradients, update_, *device_).ok());
  const size_t last = weights_.size() - 1;  // an element of a norm's bias
  EXPECT_EQ(update_.states[0][last], plain[0][last]);
  begin_again();
  update_.decays_all = true;
  ASSERT_TRUE(UpdateWith(found.gradients, update_, *device_).ok());
  EXPECT_NEAR(update_.states[0][last], plain[0][last] - 0.005 * weights_[last], 1e-6);
  // A later step with the same averages is smaller, since it corrects their bias less.
  begin_again();
  update_.decays_all = false;
  update_.optimizer.set_weight_decay(0);
  update_.updates = 9;
  ASSERT_TRUE(UpdateWith(found.gradients, update_, *device_).ok());
  EXPECT_GT(std::abs(update_.states[0][largest] - plain[0][largest]), 1e-3);
}

TEST_F(OneStepTest, RefusesWhatIsNoBatch) {
  batch_.targets.assign(8, -1);
  EXPECT_EQ(Refusal(), "no target counts");
  batch_.targets[0] = 1;
  batch_.inputs[3] = 16;
  EXPECT_EQ(Refusal(), "element 3 has token 16 and target -1; the vocabulary is of 16");
  batch_.sequences = 1;
  batch_.time = 8;
  EXPECT_EQ(Refusal(), "sequences of 8 tokens; the model takes 1 to 4");
}

}  // namespace
}  // namespace zerofleet::inference
