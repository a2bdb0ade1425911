// See kernel_benches.h.
#include "bench/kernel_benches.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "worker/device/ops.h"

namespace zerofleet {
namespace {

// Device memory for `count` elements. The rates do not depend on the values, so they stay zero.
absl::StatusOr<std::unique_ptr<Reservation>> Room(Device& device, int64_t count) {
  return device.Reserve(count * int64_t{sizeof(float)});
}

Tensor Typed(const Reservation& room, DType dtype) { return {room.data(), dtype}; }
float* Floats(const Reservation& room) { return reinterpret_cast<float*>(room.data()); }

// Seconds of the fastest of `rounds` runs, after one that is not counted.
absl::StatusOr<double> BestSeconds(Stream& stream, int rounds, const std::function<void()>& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round <= rounds; ++round) {
    const double start = Clock::Real().MonotonicSeconds();
    run();
    ZF_RETURN_IF_ERROR(stream.Synchronize());
    if (round > 0) best = std::min(best, Clock::Real().MonotonicSeconds() - start);
  }
  return best;
}

absl::Status BenchLayer(Device& device, const GemmLayer& layer, DType dtype, double peak, int rounds,
                        std::vector<GemmRate>& rates) {
  const int64_t m = layer.m, n = layer.n, k = layer.k;
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  ZF_ASSIGN_OR_RETURN(const auto x, Room(device, m * k));
  ZF_ASSIGN_OR_RETURN(const auto w, Room(device, n * k));
  ZF_ASSIGN_OR_RETURN(const auto bias, Room(device, n));
  ZF_ASSIGN_OR_RETURN(const auto y, Room(device, m * n));
  ZF_ASSIGN_OR_RETURN(const auto dw, Room(device, n * k));
  const auto measure = [&](const char* direction, const std::function<void()>& run) -> absl::Status {
    ZF_ASSIGN_OR_RETURN(const double seconds, BestSeconds(*stream, rounds, run));
    rates.push_back({layer.name, direction, dtype, m, n, k, 2.0 * m * n * k / seconds, peak});
    return absl::OkStatus();
  };
  ZF_RETURN_IF_ERROR(measure("forward", [&] {
    device.ops().LinearForward(*stream, m, n, k, Typed(*x, dtype), Typed(*w, dtype), Typed(*bias, dtype),
                               Typed(*y, dtype));
  }));
  ZF_RETURN_IF_ERROR(measure("backward input", [&] {
    device.ops().LinearBackwardInput(*stream, m, n, k, Typed(*y, dtype), Typed(*w, dtype), Typed(*x, dtype));
  }));
  return measure("backward weight", [&] {
    device.ops().LinearBackwardWeight(*stream, m, n, k, Typed(*y, dtype), Typed(*x, dtype), Floats(*dw),
                                      Floats(*bias));
  });
}

}  // namespace

std::vector<GemmLayer> Gpt2Layers() {
  return {{"gpt2-124m qkv", 1024, 2304, 768}, {"gpt2-124m projection", 1024, 768, 768},
          {"gpt2-124m fc", 1024, 3072, 768},  {"gpt2-124m out", 1024, 768, 3072},
          {"small qkv", 2048, 1152, 384},     {"small fc", 2048, 1536, 384},
          {"small out", 2048, 384, 1536}};
}

absl::StatusOr<std::vector<GemmRate>> BenchGemm(Device& device, const std::vector<GemmLayer>& layers, int rounds) {
  std::vector<GemmRate> rates;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const double peak = device.ops().MeasureGemmPeak(dtype, rounds);
    for (const GemmLayer& layer : layers) {
      ZF_RETURN_IF_ERROR(BenchLayer(device, layer, dtype, peak, rounds, rates));
    }
  }
  return rates;
}

absl::StatusOr<std::vector<OptimizerRate>> BenchOptimizer(Device& device, int64_t parameters, int rounds) {
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  ZF_ASSIGN_OR_RETURN(const auto gradient, Room(device, parameters));
  ZF_ASSIGN_OR_RETURN(const auto master, Room(device, parameters));
  ZF_ASSIGN_OR_RETURN(const auto exp_avg, Room(device, parameters));
  ZF_ASSIGN_OR_RETURN(const auto exp_avg_sq, Room(device, parameters));
  ZF_ASSIGN_OR_RETURN(const auto rounded, Room(device, parameters));
  Ops& ops = device.ops();
  const Tensor g{gradient->data()}, a{exp_avg->data()}, b{exp_avg_sq->data()}, y{rounded->data()};
  // Every page is written first: reads of untouched memory would all come from one zero page.
  for (const Reservation* room : {gradient.get(), master.get(), exp_avg.get(), exp_avg_sq.get(), rounded.get()}) {
    ops.Fill(*stream, parameters, 0.5f, Floats(*room));
  }
  ZF_ASSIGN_OR_RETURN(const double add_seconds,
                      BestSeconds(*stream, rounds, [&] { ops.Add(*stream, parameters, a, b, y); }));
  std::vector<OptimizerRate> rates;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor parameter = dtype == DType::kF32 ? Tensor{master->data(), dtype} : Tensor{rounded->data(), dtype};
    AdamWStep step{.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1,
                   .gradient_scale = 1.0, .step = 1};
    ZF_ASSIGN_OR_RETURN(const double seconds, BestSeconds(*stream, rounds, [&] {
      ops.AdamW(*stream, parameters, step, g, Floats(*master), Floats(*exp_avg), Floats(*exp_avg_sq), parameter);
    }));
    // Gradient, master and both moments are read, the last three written; a bf16 parameter is written beside them.
    const int64_t bytes = 28 + (dtype == DType::kBF16 ? 2 : 0);
    rates.push_back({DTypeName(dtype), parameters, bytes, seconds, static_cast<double>(parameters * bytes) / seconds,
                     12.0 * static_cast<double>(parameters) / add_seconds});
  }
  return rates;
}

}  // namespace zerofleet
