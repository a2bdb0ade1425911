// See kernel_benches.h.
#include "bench/kernel_benches.h"

#include <functional>
#include <memory>
#include <utility>

#include "base/status.h"
#include "bench/device_timing.h"
#include "worker/device/ops.h"
#include "worker/device/step_control.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::bench {
namespace {

// The standard deviation of GPT-2's initial weights, with which values stay near 1 through a layer.
constexpr float kWeightDeviation = 0.02f;

struct Ceilings {
  double measured, datasheet;
};

// The operands that rotate from launch to launch.
struct LayerSet {
  RandomRoom x, y;
};

absl::Status BenchLayer(device::Device& device, const GemmLayer& layer, device::DType dtype, const Ceilings& peak,
                        int rounds, std::vector<GemmRate>& rates) {
  const int64_t m = layer.m, n = layer.n, k = layer.k;
  device::Ops& ops = device.ops();
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  RandomRooms rooms(device, *stream);
  ZF_ASSIGN_OR_RETURN(const RandomRoom w, rooms.Make(n * k, kWeightDeviation, dtype));
  ZF_ASSIGN_OR_RETURN(const RandomRoom bias, rooms.Make(n, kWeightDeviation, dtype));
  ZF_ASSIGN_OR_RETURN(const RandomRoom dw, rooms.Make(n * k, 1.0f, device::DType::kF32));
  ZF_ASSIGN_OR_RETURN(const RandomRoom dbias, rooms.Make(n, 1.0f, device::DType::kF32));
  std::vector<LayerSet> sets;
  const int64_t wanted = SetsToRotate(device, m * (n + k) * device::DTypeBytes(dtype));
  while (static_cast<int64_t>(sets.size()) < wanted) {
    ZF_ASSIGN_OR_RETURN(RandomRoom x, rooms.Make(m * k, 1.0f, dtype));
    ZF_ASSIGN_OR_RETURN(RandomRoom y, rooms.Make(m * n, 1.0f, dtype));
    sets.push_back({std::move(x), std::move(y)});
  }
  const auto measure = [&](const char* direction, const std::function<void(const LayerSet&)>& run) -> absl::Status {
    ZF_ASSIGN_OR_RETURN(const double seconds, BestLaunchSeconds(device, *stream, rounds, [&](int64_t number) {
                          run(sets[static_cast<size_t>(number) % sets.size()]);
                        }));
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    rates.push_back({layer.name, direction, dtype, m, n, k, flops / seconds, peak.measured, peak.datasheet});
    return absl::OkStatus();
  };
  ZF_RETURN_IF_ERROR(measure("forward", [&](const LayerSet& set) {
    ops.LinearForward(
        *stream,
        {.m = m, .n = n, .k = k, .x = set.x.tensor(), .w = w.tensor(), .bias = bias.tensor(), .y = set.y.tensor()});
  }));
  ZF_RETURN_IF_ERROR(measure("backward input", [&](const LayerSet& set) {
    ops.LinearBackwardInput(*stream,
                            {.m = m, .n = n, .k = k, .dy = set.y.tensor(), .w = w.tensor(), .dx = set.x.tensor()});
  }));
  return measure("backward weight", [&](const LayerSet& set) {
    ops.LinearBackwardWeight(*stream, {.m = m,
                                       .n = n,
                                       .k = k,
                                       .dy = set.y.tensor(),
                                       .x = set.x.tensor(),
                                       .dw = dw.floats(),
                                       .dbias = dbias.floats()});
  });
}

absl::Status BenchHead(device::Device& device, const GemmLayer& head, device::DType dtype, const Ceilings& peak,
                       int rounds, std::vector<GemmRate>& rates) {
  const int64_t m = head.m, vocab = head.n, c = head.k;
  device::Ops& ops = device.ops();
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  RandomRooms rooms(device, *stream);
  ZF_ASSIGN_OR_RETURN(const RandomRoom x, rooms.Make(m * c, 1.0f, dtype));
  ZF_ASSIGN_OR_RETURN(const RandomRoom w, rooms.Make(vocab * c, kWeightDeviation, dtype));
  ZF_ASSIGN_OR_RETURN(const RandomRoom dx, rooms.Make(m * c, 1.0f, dtype));
  ZF_ASSIGN_OR_RETURN(const RandomRoom dw, rooms.Make(vocab * c, 1.0f, device::DType::kF32));
  ZF_ASSIGN_OR_RETURN(const auto scratch, device.Reserve(ops.CrossEntropyScratchBytes(m, c, vocab, dtype)));
  ZF_ASSIGN_OR_RETURN(const auto scale, device.Reserve(sizeof(float)));
  ZF_ASSIGN_OR_RETURN(const auto loss, device.Reserve(sizeof(double)));
  ZF_ASSIGN_OR_RETURN(const auto targets, device.Reserve(m * int64_t{sizeof(int32_t)}));
  std::vector<int32_t> chosen(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) chosen[i] = static_cast<int32_t>((i * 7919) % vocab);
  device.Copy(*stream, targets->data(), chosen.data(), targets->bytes());
  ops.Fill(*stream, 1, 1.0f / static_cast<float>(m), reinterpret_cast<float*>(scale->data()));
  ZF_ASSIGN_OR_RETURN(const double seconds, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) {
                        ops.CrossEntropy(*stream, {.m = m,
                                                   .c = c,
                                                   .vocab = vocab,
                                                   .x = x.tensor(),
                                                   .w = w.tensor(),
                                                   .targets = reinterpret_cast<const int32_t*>(targets->data()),
                                                   .gradient_scale = reinterpret_cast<const float*>(scale->data()),
                                                   .loss_sum = reinterpret_cast<double*>(loss->data()),
                                                   .dx = dx.tensor(),
                                                   .dw = dw.floats(),
                                                   .scratch = scratch->data()});
                      }));
  const double flops = 3 * 2.0 * static_cast<double>(m) * static_cast<double>(vocab) * static_cast<double>(c);
  rates.push_back(
      {head.name, "forward and backward", dtype, m, vocab, c, flops / seconds, peak.measured, peak.datasheet});
  return absl::OkStatus();
}

// Adds the linear layers of a block of hidden size `hidden`.
void AddBlock(const std::string& model, int64_t tokens, int64_t hidden, std::vector<GemmLayer>& layers) {
  layers.push_back({model + " qkv", tokens, 3 * hidden, hidden});
  layers.push_back({model + " projection", tokens, hidden, hidden});
  layers.push_back({model + " fc", tokens, 4 * hidden, hidden});
  layers.push_back({model + " out", tokens, hidden, 4 * hidden});
}

}  // namespace

GemmWork Gpt2Gemms(const device::Device& device) {
  GemmWork work;
  if (device.host_addressable()) {
    AddBlock("gpt2-124m", 1024, 768, work.layers);
    for (const GemmLayer& small : {GemmLayer{"small qkv", 2048, 1152, 384}, GemmLayer{"small fc", 2048, 1536, 384},
                                   GemmLayer{"small out", 2048, 384, 1536}}) {
      work.layers.push_back(small);
    }
    return work;
  }
  constexpr int64_t kTokens = 16384;
  AddBlock("gpt2-124m", kTokens, 768, work.layers);
  AddBlock("gpt2-1558m", kTokens, 1600, work.layers);
  // The vocabulary as it is, and padded as is usual for matrix units.
  for (const int64_t vocab : {int64_t{50257}, int64_t{50304}}) {
    work.heads.push_back({"gpt2-124m head", kTokens, vocab, 768});
    work.heads.push_back({"gpt2-1558m head", kTokens, vocab, 1600});
  }
  return work;
}

absl::StatusOr<std::vector<GemmRate>> BenchGemm(device::Device& device, const GemmWork& work, int rounds) {
  std::vector<GemmRate> rates;
  for (const device::DType dtype : BenchTypes(device)) {
    const Ceilings peak = {device.ops().MeasureGemmPeak(dtype, rounds), device.datasheet_flops(dtype)};
    for (const GemmLayer& layer : work.layers) {
      ZF_RETURN_IF_ERROR(BenchLayer(device, layer, dtype, peak, rounds, rates));
    }
    // In fp32 the heads take a GPU half a minute, and nobody trains that way.
    if (dtype == device::DType::kF32 && !device.host_addressable()) continue;
    for (const GemmLayer& head : work.heads) {
      ZF_RETURN_IF_ERROR(BenchHead(device, head, dtype, peak, rounds, rates));
    }
  }
  return rates;
}

absl::StatusOr<std::vector<OptimizerRate>> BenchOptimizer(device::Device& device, int64_t parameters, int rounds) {
  ZF_ASSIGN_OR_RETURN(const double memory, MemoryBytesPerSecond(device, parameters, rounds));
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  RandomRooms rooms(device, *stream);
  ZF_ASSIGN_OR_RETURN(const RandomRoom gradient, rooms.Make(parameters, 1.0f, device::DType::kF32));
  ZF_ASSIGN_OR_RETURN(const RandomRoom master, rooms.Make(parameters, 1.0f, device::DType::kF32));
  ZF_ASSIGN_OR_RETURN(const auto rounded, device.Reserve(parameters * device::DTypeBytes(device::DType::kBF16)));
  ZF_ASSIGN_OR_RETURN(const auto control_room, device.Reserve(sizeof(device::StepControl)));
  const device::StepRule rule = {.tokens = 1,
                                 .grad_clip = 0,
                                 .loss_scaling = {},
                                 .learning_rate = 1e-3,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8,
                                 .momentum = 0.9,
                                 .weight_decay = 0.1};
  const device::StepControl control = {.updates = 1, .apply = 1, .factors = device::FactorsOf(rule, 1.0, 1)};
  device.Copy(*stream, control_room->data(), &control, sizeof(control));
  const device::DecaySegment everything[] = {{0, parameters, true}};
  std::vector<OptimizerRate> rates;
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    if (optimizer.whole_matrices) continue;  // it does not update a flat vector
    // All states but the master weights begin at zero; the round that is not counted makes them what they are in
    // training.
    optim::StateTensors states = {master.tensor()};
    std::vector<std::unique_ptr<device::Reservation>> rows;
    for (size_t v = 1; v < optimizer.vectors.size(); ++v) {
      const device::DType dtype = optimizer.vectors[v].dtype;
      ZF_ASSIGN_OR_RETURN(rows.emplace_back(), device.Reserve(parameters * device::DTypeBytes(dtype)));
      states.push_back({rows.back()->data(), dtype});
    }
    for (const device::DType dtype : BenchTypes(device)) {
      const device::Tensor parameter =
          dtype == device::DType::kF32 ? master.tensor() : device::Tensor{rounded->data(), dtype};
      const optim::UpdatePiece piece = {everything, reinterpret_cast<const device::StepControl*>(control_room->data()),
                                        gradient.tensor(), states, parameter};
      ZF_ASSIGN_OR_RETURN(const double seconds, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) {
                            optimizer.update(device.ops(), *stream, piece);
                          }));
      // The gradient is read, the states are read and written; a rounded parameter is written too.
      const int64_t bytes = device::DTypeBytes(gradient.tensor().dtype) + 2 * optimizer.StateBytesPerParameter() +
                            (dtype == device::DType::kF32 ? 0 : device::DTypeBytes(dtype));
      rates.push_back({optimizer.name, device::DTypeName(dtype), parameters, bytes, seconds,
                       static_cast<double>(parameters * bytes) / seconds, memory});
    }
  }
  return rates;
}

}  // namespace zerofleet::bench
