// Planted faults are found where they are, and a step without faults has no findings.
#include "cli/commands/doctor.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/huggingface_tensor.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/transpose.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

using checkpoint::SafetensorsTensor;
using ::testing::HasSubstr;

constexpr char kConfig[] =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 6, "vocab_size": 16})";

class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(testing::TempDir(), "/doctor_", getpid());
    ASSERT_TRUE(RemoveTree(dir_).ok());
    ASSERT_TRUE(CreateDirectories(dir_ + "/hf").ok());
    ASSERT_TRUE(WriteFileAtomically(dir_ + "/hf/config.json", kConfig).ok());
    model_ = checkpoint::ReadHuggingFaceModel(dir_ + "/hf").value();
    spec_ = std::make_unique<model::ModelSpec>(model::ModelSpec::Create(model_).value());
    format_ = &model::FindModelFamily("gpt2").value()->hugging_face;
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.3f);
    weights_.resize(static_cast<size_t>(spec_->parameters()));
    for (float& weight : weights_) weight = normal(random);
    Add("", weights_);
    Write("hf/model.safetensors");
    AddIntegers("input_ids", {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, {2, 6});
    AddIntegers("labels", {3, 4, 5, -100, 7, 8, 9, 10, 11, 12, 13, 14}, {2, 6});
    Write("batch");
    optimizer_.set_name("adamw");
    optimizer_.set_learning_rate(1e-3);
    optimizer_.set_beta1(0.9);
    optimizer_.set_beta2(0.95);
    optimizer_.set_epsilon(1e-8);
    optimizer_.set_weight_decay(0.1);
    optimizer_.set_grad_clip(0.5);
    for (size_t v = 0; v < 2; ++v) {
      moments_[v].resize(weights_.size());
      for (float& value : moments_[v]) value = std::abs(normal(random)) * (v == 0 ? 0.01f : 0.001f);
    }
    Add("exp_avg.", moments_[0]);
    Add("exp_avg_sq.", moments_[1]);
    AddNumber("step", 6);
    Write("state");
    batch_ = ReadStepBatch(dir_ + "/batch").value();
    done_ = Step();
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }

  // The numbers of a trainer that does everything right.
  struct Done {
    double loss, norm;
    std::vector<float> gradients, weights, exp_avg, exp_avg_sq;
  };
  Done Step() {
    std::vector<float> weights = weights_;
    inference::BatchGradients found = inference::GradientsOf(model_, weights, batch_, *device_).value();
    return Updated(found.loss, found.gradients);
  }
  Done Updated(double loss, std::vector<float> gradients) {
    inference::UpdateToDo update{.model = model_,
                                 .optimizer = optimizer_,
                                 .decays_all = false,
                                 .updates = 6,
                                 .states = {weights_, moments_[0], moments_[1]}};
    const double norm = inference::UpdateWith(gradients, update, *device_).value();
    return {loss, norm, gradients, update.states[0], update.states[1], update.states[2]};
  }

  // The doctor's first finding in `done`; empty if there is none.
  std::string FirstIn(const Done& done) {
    AddNumber("loss", static_cast<float>(done.loss));
    AddNumber("grad_norm", static_cast<float>(done.norm));
    Add("gradient.", done.gradients);
    Add("updated.", done.weights);
    Add("exp_avg.", done.exp_avg);
    Add("exp_avg_sq.", done.exp_avg_sq);
    Write("expect");
    const absl::StatusOr<std::vector<DoctorFinding>> findings = Examine(Input(), *device_);
    if (!findings.ok()) return std::string(findings.status().message());
    EXPECT_EQ(findings->size(), 6u);
    for (const DoctorFinding& finding : *findings) {
      if (!finding.first.empty()) return finding.first;
    }
    return "";
  }
  DoctorInput Input() const {
    return {.checkpoint = dir_ + "/hf",
            .batch = dir_ + "/batch",
            .expect = dir_ + "/expect",
            .state = dir_ + "/state",
            .optimizer = optimizer_};
  }
  std::span<float> Of(const std::string& name, std::vector<float>& flat) const {
    for (const model::TensorSpec& tensor : spec_->tensors()) {
      if (tensor.name == name) return std::span(flat).subspan(tensor.flat_begin, tensor.elements());
    }
    ADD_FAILURE() << name;
    return {};
  }

  void Add(const std::string& kind, std::vector<float> flat) {
    for (const model::TensorSpec& tensor : spec_->tensors()) {
      const std::span<float> ours = std::span(flat).subspan(tensor.flat_begin, tensor.elements());
      std::vector<float> theirs(ours.begin(), ours.end());
      const std::vector<int64_t> shape = checkpoint::SourceShape(*format_, tensor);
      if (shape != tensor.shape || (format_->transposes_products && tensor.projects)) {
        checkpoint::Transpose(ours, tensor.shape[0], tensor.shape[1], theirs);
      }
      AddBytes(kind + tensor.name, "F32", shape, theirs.data(), theirs.size() * sizeof(float));
    }
  }
  void AddNumber(const std::string& name, float value) { AddBytes(name, "F32", {}, &value, sizeof value); }
  void AddIntegers(const std::string& name, const std::vector<int64_t>& values, std::vector<int64_t> shape) {
    AddBytes(name, "I64", std::move(shape), values.data(), values.size() * sizeof(int64_t));
  }
  void AddBytes(const std::string& name, const char* dtype, std::vector<int64_t> shape, const void* data,
                size_t bytes) {
    tensors_.push_back({.name = name, .dtype = dtype, .shape = std::move(shape)});
    data_.append(static_cast<const char*>(data), bytes);
  }
  void Write(const std::string& name) {
    ASSERT_TRUE(
        WriteFileAtomically(absl::StrCat(dir_, "/", name), checkpoint::EncodeSafetensorsHeader(tensors_) + data_).ok());
    tensors_.clear();
    data_.clear();
  }

  const std::unique_ptr<device::Device> device_ = device::CreateDevice({.kind = "cpu"}).value();
  std::string dir_;
  v1::ModelConfig model_;
  std::unique_ptr<model::ModelSpec> spec_;
  const model::HuggingFaceFormat* format_ = nullptr;
  v1::OptimizerConfig optimizer_;
  std::vector<float> weights_, moments_[2];
  inference::StepBatch batch_;
  Done done_;
  std::vector<SafetensorsTensor> tensors_;
  std::string data_;
};

TEST_F(DoctorTest, LabelsAreOfThePositionBefore) {
  EXPECT_EQ(batch_.sequences, 2);
  EXPECT_EQ(batch_.inputs, (std::vector<int32_t>{3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(batch_.targets, (std::vector<int32_t>{4, 5, -1, 7, 8, -1, 10, 11, 12, 13, 14, -1}));
}

TEST_F(DoctorTest, FindsNothingWhereNothingIsWrong) { EXPECT_EQ(FirstIn(done_), ""); }

TEST_F(DoctorTest, NamesWhatIsWrong) {
  struct Plant {
    const char* name;
    std::function<void(Done&)> change;
    const char* found;
  };
  const auto scale = [](std::span<float> values, float factor) {
    for (float& value : values) value *= factor;
  };
  // Computes everything after the gradients from them.
  const auto goes_on = [this](Done& done) { done = Updated(done.loss, done.gradients); };
  const std::vector<Plant> plants = {
      {"a loss that is summed", [](Done& d) { d.loss *= 10; }, "loss is "},
      {"a loss of shifted targets", [](Done& d) { d.loss += 0.01; }, "loss is "},
      {"gradients summed in place of averaged", [&](Done& d) { scale(d.gradients, 10), goes_on(d); },
       "gradient of transformer.ln_f.bias is 10 times ours"},
      {"gradients averaged twice", [&](Done& d) { scale(d.gradients, 0.5), goes_on(d); },
       "gradient of transformer.ln_f.bias is 0.5 times ours"},
      {"a gradient that is not reduced",
       [&](Done& d) { scale(Of("transformer.h.0.mlp.c_fc.weight", d.gradients), 0.5), goes_on(d); },
       "gradient of transformer.h.0.mlp.c_fc.weight is 0.5 times ours"},
      {"a gradient that is lost",
       [&](Done& d) { scale(Of("transformer.h.1.ln_2.weight", d.gradients), 0), goes_on(d); },
       "gradient of transformer.h.1.ln_2.weight is zero"},
      {"a gradient with a wrong sign",
       [&](Done& d) { scale(Of("transformer.wpe.weight", d.gradients), -1), goes_on(d); },
       "gradient of transformer.wpe.weight is -1 times ours"},
      {"one element",
       [&](Done& d) { Of("transformer.h.1.attn.c_attn.weight", d.gradients)[2 * 8 + 5] += 0.01f, goes_on(d); },
       "gradient of transformer.h.1.attn.c_attn.weight differs, most in element [5, 2]: "},
      {"two rows of an embedding exchanged",
       [&](Done& d) {
         std::span<float> rows = Of("transformer.wte.weight", d.gradients);
         std::swap_ranges(rows.begin(), rows.begin() + 8, rows.begin() + 8 * 5), goes_on(d);
       },
       "gradient of transformer.wte.weight differs"},
      {"a tied head's part of the gradient missing",
       [&](Done& d) { scale(Of("transformer.wte.weight", d.gradients).subspan(0, 3 * 8), 0), goes_on(d); },
       "gradient of transformer.wte.weight differs"},
      {"the last layer's gradient before others'",
       [&](Done& d) {
         scale(Of("transformer.h.0.ln_1.bias", d.gradients), 2);
         scale(Of("transformer.h.1.mlp.c_proj.bias", d.gradients), 2), goes_on(d);
       },
       "gradient of transformer.h.1.mlp.c_proj.bias is 2 times ours"},
      {"a norm counted twice", [](Done& d) { d.norm *= std::sqrt(2.0); }, "grad_norm is "},
      {"no clipping",
       [&](Done& d) {
         optimizer_.set_grad_clip(0), goes_on(d);
         optimizer_.set_grad_clip(0.5);
       },
       "exp_avg of transformer.wte.weight differs"},
      {"a stale moment", [&](Done& d) { std::copy_n(moments_[0].begin(), d.exp_avg.size(), d.exp_avg.begin()); },
       "exp_avg of transformer.wte.weight differs"},
      {"a stale second moment of one tensor",
       [&](Done& d) {
         std::span<float> now = Of("transformer.h.0.mlp.c_proj.weight", d.exp_avg_sq);
         const std::span<float> before = Of("transformer.h.0.mlp.c_proj.weight", moments_[1]);
         std::copy(before.begin(), before.end(), now.begin());
       },
       "exp_avg_sq of transformer.h.0.mlp.c_proj.weight"},
      {"beta2 of another run",
       [&](Done& d) {
         optimizer_.set_beta2(0.999), goes_on(d);
         optimizer_.set_beta2(0.95);
       },
       "exp_avg_sq of transformer.wte.weight differs"},
      {"another learning rate",
       [&](Done& d) {
         optimizer_.set_learning_rate(2e-3), goes_on(d);
         optimizer_.set_learning_rate(1e-3);
       },
       "updated of transformer.wte.weight: its change is 2 times ours"},
      {"a norm's weight that decays",
       [&](Done& d) {
         for (size_t i = 0; i < 8; ++i) {
           Of("transformer.h.0.ln_1.weight", d.weights)[i] -= 1e-4f * Of("transformer.h.0.ln_1.weight", weights_)[i];
         }
       },
       "updated of transformer.h.0.ln_1.weight: its change differs"},
      {"a tensor that is not updated",
       [&](Done& d) {
         const std::span<float> before = Of("transformer.h.1.attn.c_proj.bias", weights_);
         std::copy(before.begin(), before.end(), Of("transformer.h.1.attn.c_proj.bias", d.weights).begin());
       },
       "updated of transformer.h.1.attn.c_proj.bias: its change is zero"},
      {"an update that is applied twice",
       [&](Done& d) {
         std::span<float> now = Of("transformer.h.1.mlp.c_fc.bias", d.weights);
         const std::span<float> before = Of("transformer.h.1.mlp.c_fc.bias", weights_);
         for (size_t i = 0; i < now.size(); ++i) now[i] += now[i] - before[i];
       },
       "updated of transformer.h.1.mlp.c_fc.bias: its change is "},
  };
  EXPECT_EQ(plants.size(), 20u);
  for (const Plant& plant : plants) {
    Done done = done_;
    plant.change(done);
    EXPECT_THAT(FirstIn(done), HasSubstr(plant.found)) << plant.name;
  }
}

TEST_F(DoctorTest, RefusesAToleranceThatIsNoNumber) {
  AddNumber("loss", static_cast<float>(done_.loss));
  Write("expect");
  DoctorInput input = Input();
  EXPECT_TRUE(Examine(input, *device_).ok());
  input.tolerance = std::nan("");
  EXPECT_EQ(Examine(input, *device_).status().message(), "--tolerance: must be 1e-09 to 1, got nan");
}

TEST_F(DoctorTest, RefusesFilesThatDoNotFit) {
  AddNumber("losses", 1);
  Write("expect");
  EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()),
              HasSubstr("unknown tensor 'losses'; expected"));
  Write("expect");
  EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()), HasSubstr("holds nothing to compare"));
  AddNumber("loss", std::nanf(""));
  Write("expect");
  EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()), HasSubstr("'loss': element 0 is nan"));
  AddNumber("loss", 1);
  Write("expect");
  for (const float step : {-1.0f, 0.5f, 1e30f}) {
    Add("exp_avg.", moments_[0]);
    Add("exp_avg_sq.", moments_[1]);
    AddNumber("step", step);
    Write("state");
    EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()),
                HasSubstr("/state: tensor 'step': must be a whole number from 0 to 2^24, got "));
  }
  Add("exp_avg.", moments_[0]);
  AddNumber("step", 6);
  Write("state");
  EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()),
              HasSubstr("/state: no tensor 'exp_avg_sq.transformer.wte.weight'"));
  Add("exp_avg.", moments_[0]);
  Add("exp_avg_sq.", moments_[1]);
  Write("state");
  EXPECT_EQ(Examine(Input(), *device_).status().message(), absl::StrCat("--state: ", dir_, "/state: no tensor 'step'"));
  AddIntegers("input_ids", {1, 2}, {1, 2});
  AddIntegers("attention_mask", {1, 1}, {1, 2});
  Write("batch");
  EXPECT_THAT(std::string(ReadStepBatch(dir_ + "/batch").status().message()),
              HasSubstr("/batch: unknown tensor 'attention_mask'; expected input_ids and labels"));
  Add("exp_avg.", moments_[0]);
  Add("exp_avg_sq.", moments_[1]);
  AddNumber("step", 6);
  Write("state");
  AddIntegers("input_ids", {1, 2, 3}, {3});
  Write("batch");
  EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()),
              HasSubstr("shape (3), expected (sequences, tokens)"));
  AddIntegers("input_ids", {1, 2}, {1, 2});
  AddIntegers("labels", {1, -1}, {1, 2});
  Write("batch");
  EXPECT_THAT(std::string(Examine(Input(), *device_).status().message()), HasSubstr("labels are ids, or -100"));
}

}  // namespace
}  // namespace zerofleet::cli
