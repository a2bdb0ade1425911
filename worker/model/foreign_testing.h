// A small foreign model, and passes that stand in for Python's.
#ifndef ZEROFLEET_WORKER_MODEL_FOREIGN_TESTING_H_
#define ZEROFLEET_WORKER_MODEL_FOREIGN_TESTING_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/device/dtype.h"
#include "worker/model/foreign.h"

namespace zerofleet::model {

// Parses events such as "a0 g1 d1 r0": a letter for acquire, gradient, deliver or release, and the unit.
inline std::vector<UnitEvent> EventsOf(const std::string& text) {
  std::vector<UnitEvent> events;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    const size_t what = std::string("argd").find(word[0]);
    ZF_CHECK(what != std::string::npos);
    events.push_back({static_cast<UnitEvent::What>(what), std::stoi(word.substr(1))});
  }
  return events;
}

inline void SetEvents(const std::string& text, google::protobuf::RepeatedPtrField<v1::ForeignEvent>* to) {
  to->Clear();
  for (const UnitEvent& event : EventsOf(text)) {
    v1::ForeignEvent* const one = to->Add();
    one->set_what(static_cast<v1::ForeignEvent::What>(event.what));
    one->set_unit(event.unit);
  }
}

// Units of 5, 12 and 7 elements; the first is in use during the whole pass.
inline v1::ModelConfig ForeignConfig() {
  v1::ModelConfig config;
  config.set_torch("module:build");
  config.set_family("torch");
  config.set_context(1);
  v1::ForeignModel& foreign = *config.mutable_foreign();
  const auto add = [&](const char* unit, const char* tensor, const std::vector<int64_t>& shape) {
    v1::ForeignUnit& to = *foreign.add_units();
    to.set_name(unit);
    v1::ForeignTensor& one = *to.add_tensors();
    one.set_name(tensor);
    for (const int64_t side : shape) one.add_shape(side);
    one.set_decay(shape.size() > 1);
  };
  add("root", "scale", {5});
  add("first", "first.weight", {4, 3});
  add("second", "second.bias", {7});
  SetEvents("a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0 d0 r0", foreign.mutable_training());
  SetEvents("a0 a1 r1 a2 r2 r0", foreign.mutable_evaluation());
  foreign.set_flops_per_sample(100);
  return config;
}

// ForeignConfig with its second unit frozen.
inline v1::ModelConfig FrozenForeignConfig() {
  v1::ModelConfig config = ForeignConfig();
  config.mutable_foreign()->mutable_units(1)->set_frozen(true);
  SetEvents("a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 r1 g0 d0 r0", config.mutable_foreign()->mutable_training());
  return config;
}

// ForeignConfig with a fourth unit, of two buffers that passes change: a number of steps and three means.
inline v1::ModelConfig BufferedForeignConfig() {
  v1::ModelConfig config = ForeignConfig();
  v1::ForeignModel& foreign = *config.mutable_foreign();
  v1::ForeignUnit& unit = *foreign.add_units();
  unit.set_name("(buffers)");
  const auto add = [&](const char* name, const char* dtype, const std::vector<int64_t>& shape, int64_t bytes) {
    v1::ForeignTensor& tensor = *unit.add_tensors();
    tensor.set_name(name);
    tensor.add_shape(bytes);
    tensor.mutable_buffer()->set_dtype(dtype);
    for (const int64_t side : shape) tensor.mutable_buffer()->add_shape(side);
  };
  add("steps", "I64", {}, 8);
  add("means", "F32", {3}, 12);
  SetEvents("a3 r3 a0 a1 r1 a2 r2 a2 g2 d2 r2 a1 g1 d1 r1 g0 d0 r0 g3 d3", foreign.mutable_training());
  SetEvents("a3 r3 a0 a1 r1 a2 r2 r0", foreign.mutable_evaluation());
  return config;
}

// The buffers of BufferedForeignConfig.
struct TestBuffers {
  int64_t steps = 0;
  std::array<float, 3> means = {};

  static constexpr int kUnit = 3;
  static constexpr int64_t kBytes = 20;

  // From and to a byte in each value.
  template <typename Value>
  static TestBuffers Of(const Value& value) {
    std::array<uint8_t, kBytes> bytes;
    for (int64_t i = 0; i < kBytes; ++i) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(value(i));
    TestBuffers made;
    std::memcpy(&made.steps, bytes.data(), sizeof made.steps);
    std::memcpy(made.means.data(), bytes.data() + sizeof made.steps, sizeof made.means);
    return made;
  }
  void AddTo(float* sums) const {
    std::array<uint8_t, kBytes> bytes;
    std::memcpy(bytes.data(), &steps, sizeof steps);
    std::memcpy(bytes.data() + sizeof steps, means.data(), sizeof means);
    for (const uint8_t byte : bytes) *sums++ += static_cast<float>(byte);
  }
  // What a pass over these samples makes of them.
  void See(int64_t sample) {
    ++steps;
    for (size_t i = 0; i < means.size(); ++i) {
      means[i] += 0.1f * (static_cast<float>(sample) - static_cast<float>(i) / 7 - means[i]);
    }
  }
  bool operator==(const TestBuffers&) const = default;
};

// Computes on the host, so it waits for the stream before it reads the device's memory, which on an emulated GPU the
// host can reach. The loss of a sample s is (s + 1) times half the sum of squared distances of the parameters from
// their goals; its weight is s + 2.
class LinearPasses : public ForeignPasses {
 public:
  static constexpr int64_t kElements[] = {5, 12, 7};

  absl::Status Prepare(const v1::Config& /*config*/, const device::Device& /*device*/) override {
    return absl::OkStatus();
  }

  absl::StatusOr<ForeignLoss> Train(const ForeignBatch& batch, ScriptedPass& units,
                                    const std::function<void()>& on_backward) override {
    ZF_ASSIGN_OR_RETURN(const ForeignLoss loss, Evaluate(batch, units));
    on_backward();
    ZF_RETURN_IF_ERROR(units.Acquire(0).status());
    for (const int unit : {2, 1, 0}) {
      if (unit == left_out) continue;
      ZF_ASSIGN_OR_RETURN(const device::Tensor values, units.Acquire(unit));
      ZF_RETURN_IF_ERROR(batch.stream.Synchronize());
      if (unit == frozen) {
        ZF_RETURN_IF_ERROR(units.Release(unit));
        continue;
      }
      ZF_ASSIGN_OR_RETURN(float* const sum, units.Gradient(unit));
      ZF_RETURN_IF_ERROR(batch.stream.Synchronize());
      for (int64_t i = 0; i < kElements[unit]; ++i) {
        for (const int64_t sample : batch.batch.samples) {
          sum[i] += static_cast<float>(sample + 1) * Distance(values, unit, i);
        }
      }
      ZF_RETURN_IF_ERROR(units.Deliver(unit));
      ZF_RETURN_IF_ERROR(units.Release(unit));
    }
    return loss;
  }

  absl::StatusOr<ForeignLoss> Evaluate(const ForeignBatch& batch, ScriptedPass& units) override {
    ForeignLoss loss;
    ZF_ASSIGN_OR_RETURN(const device::Tensor root, units.Acquire(0));
    ZF_RETURN_IF_ERROR(batch.stream.Synchronize());
    double squares = SquaresOf(root, 0);
    for (const int unit : {1, 2}) {
      if (unit == left_out) continue;
      ZF_ASSIGN_OR_RETURN(const device::Tensor values, units.Acquire(unit));
      ZF_RETURN_IF_ERROR(batch.stream.Synchronize());
      squares += SquaresOf(values, unit);
      ZF_RETURN_IF_ERROR(units.Release(unit));
    }
    for (const int64_t sample : batch.batch.samples) {
      loss.sum += static_cast<double>(sample + 1) * squares / 2;
      loss.weight += static_cast<double>(sample + 2);
    }
    if (stays) {
      last_ = {loss.sum, loss.weight};
      loss = {.sum = -1, .weight = -1, .on_device = last_.data()};
    }
    return loss;
  }

  static float Goal(int unit, int64_t i) { return 0.1f * static_cast<float>(unit + 1) - 0.03f * static_cast<float>(i); }

  int left_out = -1;   // a unit that passes do not use
  int frozen = -1;     // a unit that has no gradient
  bool stays = false;  // report losses by their address

 protected:
  static float ValueAt(const device::Tensor& values, int64_t i) {
    if (values.dtype == device::DType::kF32) return static_cast<const float*>(values.data)[i];
    return device::ToFloat(static_cast<const device::BF16*>(values.data)[i]);
  }

 private:
  std::array<double, 2> last_ = {};

  static float Distance(const device::Tensor& values, int unit, int64_t i) {
    return ValueAt(values, i) - Goal(unit, i);
  }
  static double SquaresOf(const device::Tensor& values, int unit) {
    double sum = 0;
    for (int64_t i = 0; i < kElements[unit]; ++i) sum += double{Distance(values, unit, i)} * Distance(values, unit, i);
    return sum;
  }
};

// LinearPasses of a module with buffers, for BufferedForeignConfig.
class BufferedPasses : public LinearPasses {
 public:
  absl::StatusOr<ForeignLoss> Train(const ForeignBatch& batch, ScriptedPass& units,
                                    const std::function<void()>& on_backward) override {
    ZF_RETURN_IF_ERROR(Load(batch, units));
    ZF_ASSIGN_OR_RETURN(const ForeignLoss loss, LinearPasses::Train(batch, units, on_backward));
    buffers.See(batch.batch.samples[0]);
    ZF_ASSIGN_OR_RETURN(float* const sums, units.Gradient(TestBuffers::kUnit));
    ZF_RETURN_IF_ERROR(batch.stream.Synchronize());
    if (batch.batch.first) buffers.AddTo(sums);
    ZF_RETURN_IF_ERROR(units.Deliver(TestBuffers::kUnit));
    return loss;
  }

  TestBuffers buffers;  // as the last pass began with them, or has left them

 private:
  absl::Status Load(const ForeignBatch& batch, ScriptedPass& units) {
    ZF_ASSIGN_OR_RETURN(const device::Tensor bytes, units.Acquire(TestBuffers::kUnit));
    ZF_RETURN_IF_ERROR(batch.stream.Synchronize());
    buffers = TestBuffers::Of([&](int64_t i) { return ValueAt(bytes, i); });
    return units.Release(TestBuffers::kUnit);
  }
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FOREIGN_TESTING_H_
