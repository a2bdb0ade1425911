// A foreign model as data, and passes held to its script; fakes stand in for Python.
#include "worker/model/foreign.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/foreign_testing.h"
#include "worker/model/model_testing.h"
#include "worker/model/script.h"

namespace zerofleet::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Notes what the source was asked for, in the script's own letters.
class NotedParameters : public ParameterSource {
 public:
  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    Note('a', unit);
    return device::Tensor{values_[unit], device::DType::kF32};
  }
  void Release(int unit) override { Note('r', unit); }
  absl::StatusOr<float*> Gradient(int unit) override {
    Note('g', unit);
    return gradients_[unit];
  }
  absl::Status DeliverGradient(int unit) override {
    Note('d', unit);
    return absl::OkStatus();
  }
  const std::string& notes() const { return notes_; }

 private:
  void Note(char what, int unit) { absl::StrAppend(&notes_, notes_.empty() ? "" : " ", std::string(1, what), unit); }

  float values_[4][8] = {}, gradients_[4][8] = {};
  std::string notes_;
};

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(ForeignSpec, IsTheTableOfTheConfiguration) {
  const ModelSpec spec = *ModelSpec::Create(ForeignConfig());
  ASSERT_EQ(spec.tensors().size(), 3u);
  EXPECT_EQ(spec.tensors()[0].name, "scale");
  EXPECT_THAT(spec.tensors()[1].shape, ElementsAre(4, 3));
  EXPECT_TRUE(spec.tensors()[1].decay);
  EXPECT_FALSE(spec.tensors()[0].decay);
  EXPECT_EQ(spec.parameters(), 5 + 12 + 7);
  EXPECT_EQ(spec.units()[1].name, "first");
  ASSERT_NE(spec.script(), nullptr);
  EXPECT_EQ(ModelSpec::Create(TestModelConfig(1, 8, 2, 4, 11))->script(), nullptr);
}

TEST(ForeignSpec, HasBuffersAsBytes) {
  const ModelSpec spec = *ModelSpec::Create(BufferedForeignConfig());
  ASSERT_EQ(spec.tensors().size(), 5u);
  EXPECT_FALSE(spec.tensors()[2].assigned);
  EXPECT_TRUE(spec.tensors()[3].assigned && spec.tensors()[4].assigned);
  EXPECT_EQ(spec.parameters(), 5 + 12 + 7 + TestBuffers::kBytes);
  EXPECT_TRUE(AssignsBuffers(BufferedForeignConfig().foreign()));
  EXPECT_FALSE(AssignsBuffers(ForeignConfig().foreign()));
  EXPECT_EQ(DifferenceOf(BufferedForeignConfig().foreign(), BufferedForeignConfig().foreign()), "");
  v1::ModelConfig other = BufferedForeignConfig();
  other.mutable_foreign()->mutable_units(3)->mutable_tensors(1)->mutable_buffer()->set_dtype("I32");
  EXPECT_EQ(DifferenceOf(BufferedForeignConfig().foreign(), other.foreign()),
            "tensor means is a buffer, F32[3] in unit (buffers) there and a buffer, I32[3] in unit (buffers) here");
}

TEST(ForeignSpec, RefusesWhatIsNoBuffer) {
  const auto with = [](const std::function<void(v1::ForeignUnit&)>& change) {
    v1::ModelConfig config = BufferedForeignConfig();
    change(*config.mutable_foreign()->mutable_units(3));
    return MessageOf(ModelSpec::Create(config).status());
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& u) { u.mutable_tensors(0)->mutable_buffer()->set_dtype("I65"); }),
              HasSubstr("unknown type"));
  EXPECT_THAT(with([](auto& u) { u.mutable_tensors(0)->set_shape(0, 9); }), HasSubstr("a buffer of 8 bytes"));
  EXPECT_THAT(with([](auto& u) { u.mutable_tensors(0)->add_shape(1); }), HasSubstr("a buffer of 8 bytes"));
  EXPECT_THAT(with([](auto& u) { u.mutable_tensors(0)->set_decay(true); }), HasSubstr("without weight decay"));
  for (const int64_t side : {int64_t{0}, int64_t{-1}, int64_t{1} << 62}) {
    EXPECT_THAT(with([&](auto& u) { u.mutable_tensors(1)->mutable_buffer()->set_shape(0, side); }),
                HasSubstr("impossible shape"));
  }
  EXPECT_THAT(with([](auto& u) { u.set_frozen(true); }), HasSubstr("(buffers): a unit of buffers"));
  EXPECT_THAT(with([](auto& u) { u.set_module("norm"); }), HasSubstr("(buffers): a unit of buffers"));
  v1::ModelConfig first = BufferedForeignConfig();
  first.mutable_foreign()->mutable_units()->SwapElements(2, 3);
  EXPECT_THAT(MessageOf(ModelSpec::Create(first).status()), HasSubstr("(buffers): a unit of buffers is the last one"));
  v1::ForeignModel empty;
  empty.add_units();
  EXPECT_FALSE(AssignsBuffers(empty));
  for (const int tensor : {0, 1}) {
    EXPECT_THAT(with([&](auto& u) { u.mutable_tensors(tensor)->clear_buffer(); }), HasSubstr("has nothing else"));
  }
}

TEST(ForeignSpec, RefusesWhatIsNoModel) {
  const auto with = [](const std::function<void(v1::ForeignModel&)>& change) {
    v1::ModelConfig config = ForeignConfig();
    change(*config.mutable_foreign());
    return MessageOf(ModelSpec::Create(config).status());
  };
  EXPECT_THAT(with([](auto& m) { m.clear_units(); }), HasSubstr("units: 0 of them"));
  EXPECT_THAT(with([](auto& m) { m.mutable_units(1)->set_name("root"); }), HasSubstr("'root' is empty or given twice"));
  EXPECT_THAT(with([](auto& m) { m.mutable_units(1)->mutable_tensors(0)->set_name("scale"); }),
              HasSubstr("tensor name 'scale'"));
  EXPECT_THAT(with([](auto& m) { m.mutable_units(1)->mutable_tensors(0)->add_shape(0); }), HasSubstr("a side of 0"));
  EXPECT_THAT(with([](auto& m) {
                for (int i = 0; i < 3; ++i) m.mutable_units(1)->mutable_tensors(0)->add_shape(int64_t{1} << 30);
              }),
              HasSubstr("elements at most"));
  EXPECT_THAT(with([](auto& m) { m.mutable_units(1)->clear_tensors(); }), HasSubstr("first: a unit without tensors"));
  EXPECT_THAT(with([](auto& m) { m.mutable_training(0)->set_unit(3); }), HasSubstr("training[0] is of unit 3"));
  EXPECT_THAT(with([](auto& m) { m.mutable_training()->RemoveLast(); }), HasSubstr("unit 0 is never released"));
  EXPECT_THAT(with([](auto& m) { *m.add_evaluation() = m.training(0); }), HasSubstr("never released"));
  EXPECT_THAT(with([](auto& m) {
                for (v1::ForeignUnit& unit : *m.mutable_units()) unit.set_frozen(true);
              }),
              HasSubstr("nothing is trained"));
  v1::ModelConfig bare = ForeignConfig();
  bare.clear_foreign();
  EXPECT_THAT(MessageOf(ModelSpec::Create(bare).status()), HasSubstr("has not been looked at"));
  EXPECT_THAT(MessageOf(ModelSpec::Create(ForeignConfig(), {0, 2}).status()), HasSubstr("must be 1 with model.torch"));
}

TEST(ForeignSpec, FrozenUnitsAreNotTrained) {
  const ModelSpec spec = *ModelSpec::Create(FrozenForeignConfig());
  EXPECT_EQ(spec.trained_parameters(), 5 + 7);
  EXPECT_TRUE(spec.units()[1].frozen);
  EXPECT_TRUE(spec.tensors()[1].frozen);
  EXPECT_FALSE(spec.tensors()[2].frozen);
}

TEST(ForeignSpec, AnotherModuleIsOneWithOtherTensorsOrOthersTrained) {
  const v1::ForeignModel all = ForeignConfig().foreign(), some = FrozenForeignConfig().foreign();
  EXPECT_EQ(DifferenceOf(all, all), "");
  EXPECT_EQ(DifferenceOf(all, some),
            "tensor first.weight is [4, 3] in unit first there and [4, 3] in unit first, frozen, here");
  v1::ForeignModel as_all = some;
  FreezeAs(all, as_all);
  EXPECT_EQ(DifferenceOf(all, as_all), "");
}

TEST(ForeignScript, EveryUnitDeliversOnceInTraining) {
  v1::ForeignModel model;
  for (int i = 0; i < 2; ++i) model.add_units();
  const auto error_of = [&](const char* events) {
    SetEvents(events, model.mutable_training());
    return MessageOf(ScriptOf(model).status());
  };
  EXPECT_EQ(error_of("a0 a1 r1 r0 g0 d0 g1 d1"), "");
  EXPECT_THAT(error_of("a0 a0"), HasSubstr("training[1]: unit 0 is acquired out of turn"));
  EXPECT_THAT(error_of("r0"), HasSubstr("released out of turn"));
  EXPECT_THAT(error_of("d0"), HasSubstr("delivers its gradient out of turn"));
  EXPECT_THAT(error_of("g0 d0 d0"), HasSubstr("training[2]"));
  EXPECT_THAT(error_of("g0 d0 g0"), HasSubstr("begins its gradient out of turn"));
  EXPECT_THAT(error_of("a0 r0 g0"), HasSubstr("unit 0 is never done with its gradient"));
  const auto deliveries_of = [&](const char* events) {
    SetEvents(events, model.mutable_training());
    return MessageOf(CheckDeliveries(model, *ScriptOf(model)));
  };
  EXPECT_EQ(deliveries_of("g0 d0 g1 d1"), "");
  EXPECT_THAT(deliveries_of("g0 d0"), HasSubstr("unit 1, which is trained, delivers no gradient"));
  model.mutable_units(1)->set_frozen(true);
  EXPECT_EQ(deliveries_of("g0 d0"), "");
  EXPECT_THAT(deliveries_of("g0 d0 g1 d1"), HasSubstr("unit 1, which is frozen, delivers a gradient"));
}

constexpr char kTraining[] = "a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0 d0 r0";

class ScriptedPassTest : public ::testing::Test {
 protected:
  ScriptedPassTest() : script_(EventsOf(kTraining)), pass_(script_, names_, source_) {}

  const std::vector<std::string> names_ = {"root", "first", "second"};
  const std::vector<UnitEvent> script_;
  NotedParameters source_;
  ScriptedPass pass_;
};

TEST_F(ScriptedPassTest, AsksForWhatThePassAsksFor) {
  EXPECT_TRUE(pass_.Acquire(0).ok());
  EXPECT_TRUE(pass_.Acquire(1).ok());
  EXPECT_EQ(source_.notes(), "a0 a1");
  EXPECT_TRUE(pass_.Release(1).ok());
  EXPECT_EQ(source_.notes(), "a0 a1 r1");
  EXPECT_TRUE(pass_.Acquire(2).ok());
  EXPECT_TRUE(pass_.Acquire(2).ok());  // it is held
  EXPECT_TRUE(pass_.Release(2).ok());
  EXPECT_TRUE(pass_.Acquire(2).ok());
  float* const sum = *pass_.Gradient(2);
  EXPECT_EQ(*pass_.Gradient(2), sum);
  EXPECT_EQ(source_.notes(), "a0 a1 r1 a2 r2 a2 g2");
  EXPECT_TRUE(pass_.Release(2).ok());  // the source is not called yet: the script delivers the gradient first
  EXPECT_EQ(source_.notes(), "a0 a1 r1 a2 r2 a2 g2");
  EXPECT_TRUE(pass_.Deliver(2).ok());
  EXPECT_EQ(source_.notes(), "a0 a1 r1 a2 r2 a2 g2 d2 r2");
  EXPECT_TRUE(pass_.Finish().ok());
  EXPECT_EQ(source_.notes(), kTraining);
}

// Every rank posts the same collectives, whatever path its data take through the model.
TEST_F(ScriptedPassTest, PassesOverWhatThePassLeavesOut) {
  EXPECT_TRUE(pass_.Acquire(0).ok());
  EXPECT_TRUE(pass_.Acquire(2).ok());
  EXPECT_EQ(source_.notes(), "a0 a1 r1 a2");
  EXPECT_TRUE(pass_.Release(2).ok());
  EXPECT_TRUE(pass_.Acquire(2).ok());
  EXPECT_TRUE(pass_.Gradient(2).ok());
  EXPECT_TRUE(pass_.Deliver(2).ok());
  EXPECT_TRUE(pass_.Release(2).ok());
  EXPECT_TRUE(pass_.Gradient(0).ok());
  EXPECT_EQ(source_.notes(), "a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0");
  EXPECT_TRUE(pass_.Finish().ok());
  EXPECT_EQ(source_.notes(), kTraining);
}

TEST_F(ScriptedPassTest, AnEmptyPassAsksForEverything) {
  EXPECT_TRUE(pass_.Finish().ok());
  EXPECT_EQ(source_.notes(), kTraining);
}

TEST_F(ScriptedPassTest, NamesTheModuleThatComesOutOfOrder) {
  EXPECT_TRUE(pass_.Acquire(0).ok());
  EXPECT_TRUE(pass_.Acquire(1).ok());
  const absl::Status status = pass_.Acquire(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("module second is acquired while first is still in use"));
}

TEST_F(ScriptedPassTest, AGradientAfterItsDeliveryIsAnError) {
  EXPECT_TRUE(pass_.Gradient(1).ok());  // performs the second unit's events first
  EXPECT_THAT(MessageOf(pass_.Gradient(2).status()),
              HasSubstr("module second begins its gradient after it was deliver"));
}

TEST_F(ScriptedPassTest, NothingIsAcquiredBehindTheEnd) {
  EXPECT_TRUE(pass_.Finish().ok());
  EXPECT_THAT(MessageOf(pass_.Acquire(1).status()), HasSubstr("where the recorded pass does not"));
}

TEST(ForeignModel, ItsUsesAreTheScripts) {
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const std::unique_ptr<Model> model = *Model::Create(ForeignConfig(), {.dtype = device::DType::kF32}, *device);
  EXPECT_THAT(model->uses().training, ElementsAre(0, 1, 2, 2, 1));
  EXPECT_THAT(model->uses().evaluation, ElementsAre(0, 1, 2));
  EXPECT_EQ(model->ActivationBytes(), 0);
}

TEST(ForeignModel, DryItIsItsScript) {
  device::DryDevice device;
  const std::unique_ptr<Model> model = *Model::Create(ForeignConfig(), {.dtype = device::DType::kF32}, device);
  const std::unique_ptr<device::Stream> stream = *device.CreateStream();
  NotedParameters source;
  bool turned = false;
  EXPECT_TRUE(model->Train({}, nullptr, source, *stream, nullptr, [&] { turned = true; }).ok());
  EXPECT_EQ(source.notes(), "a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0 d0 r0");
  EXPECT_TRUE(turned);
}

TEST(ForeignModel, OnADeviceItNeedsSomebodyToRunIt) {
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const std::unique_ptr<Model> model = *Model::Create(ForeignConfig(), {.dtype = device::DType::kF32}, *device);
  const std::unique_ptr<device::Stream> stream = *device->CreateStream();
  NotedParameters source;
  double loss = 0, weight = 0;
  MicroBatch batch;
  batch.weight = &weight;
  const absl::Status status = model->Evaluate(batch, source, *stream, &loss);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("python -m zerofleet worker"));
}

TEST(ForeignModel, LossAndWeightAreThePasses) {
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  LinearPasses passes;
  const std::unique_ptr<Model> model =
      *Model::Create(ForeignConfig(), {.dtype = device::DType::kF32, .passes = &passes}, *device);
  const std::unique_ptr<device::Stream> stream = *device->CreateStream();
  NotedParameters source;
  double loss = 0, weight = 0;
  const std::vector<int64_t> samples = {3, 5};
  MicroBatch batch;
  batch.samples = samples;
  batch.weight = &weight;
  const float scale = 1;
  EXPECT_TRUE(model->Train(batch, &scale, source, *stream, &loss, [] {}).ok());
  EXPECT_EQ(weight, 3 + 5 + 2 * 2);  // as LinearPasses computes it
  EXPECT_EQ(source.notes(), "a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0 d0 r0");
}

}  // namespace
}  // namespace zerofleet::model
