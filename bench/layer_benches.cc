// See layer_benches.h.
#include "bench/layer_benches.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/status.h"
#include "bench/device_timing.h"

namespace zerofleet::bench {

std::vector<AttentionWork> Gpt2Attentions(const device::Device& device) {
  if (device.host_addressable()) {
    return {{"gpt2-124m", {.batch = 1, .time = 256, .heads = 12, .head_size = 64}},
            {"gpt2-124m", {.batch = 1, .time = 2048, .heads = 12, .head_size = 64}}};
  }
  return {{"gpt2-124m", {.batch = 16, .time = 1024, .heads = 12, .head_size = 64}},
          {"gpt2-1558m", {.batch = 16, .time = 1024, .heads = 25, .head_size = 64}}};
}

namespace {

std::string TakeRefusal(device::Ops& ops) {
  const std::vector<device::RefusedShape> refused = ops.TakeRefusedShapes();
  return refused.empty() ? "" : refused.front().reason;
}

}  // namespace

absl::StatusOr<std::vector<AttentionRate>> BenchAttention(device::Device& device,
                                                          const std::vector<AttentionWork>& work, int rounds) {
  device::Ops& ops = device.ops();
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  RandomRooms rooms(device, *stream);
  std::vector<AttentionRate> rates;
  for (const device::DType dtype : BenchTypes(device)) {
    const double peak = ops.MeasureGemmPeak(dtype, rounds);
    for (const AttentionWork& each : work) {
      const device::AttentionShape& shape = each.shape;
      const int64_t rows = shape.batch * shape.time, hidden = shape.heads * shape.head_size;
      ZF_ASSIGN_OR_RETURN(const RandomRoom qkv, rooms.Make(rows * 3 * hidden, 1.0f, dtype));
      ZF_ASSIGN_OR_RETURN(const RandomRoom out, rooms.Make(rows * hidden, 1.0f, dtype));
      ZF_ASSIGN_OR_RETURN(const RandomRoom dout, rooms.Make(rows * hidden, 1.0f, dtype));
      ZF_ASSIGN_OR_RETURN(const RandomRoom dqkv, rooms.Make(rows * 3 * hidden, 1.0f, dtype));
      ZF_ASSIGN_OR_RETURN(const auto logsumexp, device.Reserve(rows * shape.heads * int64_t{sizeof(float)}));
      ZF_ASSIGN_OR_RETURN(const auto scratch, device.Reserve(std::max<int64_t>(ops.AttentionScratchBytes(shape), 1)));
      float* kept = reinterpret_cast<float*>(logsumexp->data());
      const double forward_flops = 2.0 * static_cast<double>(shape.batch * shape.heads) *
                                   static_cast<double>(shape.time * shape.time) * static_cast<double>(shape.head_size);
      ZF_ASSIGN_OR_RETURN(const double forward, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) {
                            ops.AttentionForward(*stream, {.shape = shape,
                                                           .qkv = qkv.tensor(),
                                                           .out = out.tensor(),
                                                           .logsumexp = kept,
                                                           .scratch = scratch->data()});
                          }));
      rates.push_back({each.name, "forward", dtype, shape, forward_flops / forward, peak, TakeRefusal(ops)});
      ZF_ASSIGN_OR_RETURN(const double backward, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) {
                            ops.AttentionBackward(*stream, {.shape = shape,
                                                            .qkv = qkv.tensor(),
                                                            .out = out.tensor(),
                                                            .logsumexp = kept,
                                                            .dout = dout.tensor(),
                                                            .dqkv = dqkv.tensor(),
                                                            .scratch = scratch->data()});
                          }));
      rates.push_back({each.name, "backward", dtype, shape, 2.5 * forward_flops / backward, peak, TakeRefusal(ops)});
    }
  }
  return rates;
}

absl::StatusOr<std::vector<PointwiseRate>> BenchPointwise(device::Device& device, int64_t tokens, int64_t hidden,
                                                          int rounds) {
  constexpr float kEpsilon = 1e-5f;
  device::Ops& ops = device.ops();
  const int64_t count = tokens * hidden;
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  RandomRooms rooms(device, *stream);
  std::vector<PointwiseRate> rates;
  for (const device::DType dtype : BenchTypes(device)) {
    ZF_ASSIGN_OR_RETURN(
        const double memory,
        MemoryBytesPerSecond(device, count * device::DTypeBytes(dtype) / int64_t{sizeof(float)}, rounds));
    ZF_ASSIGN_OR_RETURN(const RandomRoom x, rooms.Make(count, 1.0f, dtype));
    ZF_ASSIGN_OR_RETURN(const RandomRoom y, rooms.Make(count, 1.0f, dtype));
    ZF_ASSIGN_OR_RETURN(const RandomRoom dx, rooms.Make(count, 1.0f, dtype));
    ZF_ASSIGN_OR_RETURN(const RandomRoom gamma, rooms.Make(hidden, 1.0f, dtype));
    ZF_ASSIGN_OR_RETURN(const RandomRoom beta, rooms.Make(hidden, 1.0f, dtype));
    ZF_ASSIGN_OR_RETURN(const RandomRoom mean, rooms.Make(tokens, 1.0f, device::DType::kF32));
    ZF_ASSIGN_OR_RETURN(const RandomRoom rstd, rooms.Make(tokens, 1.0f, device::DType::kF32));
    ZF_ASSIGN_OR_RETURN(const RandomRoom dgamma, rooms.Make(hidden, 1.0f, device::DType::kF32));
    ZF_ASSIGN_OR_RETURN(const RandomRoom dbeta, rooms.Make(hidden, 1.0f, device::DType::kF32));
    const int64_t type_bytes = device::DTypeBytes(dtype);
    // `bytes` are what the op reads and writes for each element of an activation.
    const auto measure = [&](const char* op, int64_t bytes, const std::function<void()>& run) -> absl::Status {
      ZF_ASSIGN_OR_RETURN(const double seconds, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) { run(); }));
      rates.push_back({op, dtype, tokens, hidden, static_cast<double>(bytes * count) / seconds, memory});
      return absl::OkStatus();
    };
    ZF_RETURN_IF_ERROR(measure("layer norm forward", 2 * type_bytes, [&] {
      ops.LayerNormForward(*stream, {.m = tokens,
                                     .c = hidden,
                                     .epsilon = kEpsilon,
                                     .x = x.tensor(),
                                     .gamma = gamma.tensor(),
                                     .beta = beta.tensor(),
                                     .y = y.tensor(),
                                     .mean = mean.floats(),
                                     .rstd = rstd.floats()});
    }));
    ZF_RETURN_IF_ERROR(measure("layer norm backward", 4 * type_bytes, [&] {
      ops.LayerNormBackward(*stream, {.m = tokens,
                                      .c = hidden,
                                      .dy = y.tensor(),
                                      .x = x.tensor(),
                                      .gamma = gamma.tensor(),
                                      .mean = mean.floats(),
                                      .rstd = rstd.floats(),
                                      .dx = dx.tensor(),
                                      .dgamma = dgamma.floats(),
                                      .dbeta = dbeta.floats()});
    }));
    ZF_RETURN_IF_ERROR(measure("rms norm forward", 2 * type_bytes, [&] {
      ops.llama().RmsNormForward(*stream, {.m = tokens,
                                           .c = hidden,
                                           .epsilon = kEpsilon,
                                           .x = x.tensor(),
                                           .gamma = gamma.tensor(),
                                           .y = y.tensor(),
                                           .rstd = rstd.floats()});
    }));
    ZF_RETURN_IF_ERROR(measure("rms norm backward", 4 * type_bytes, [&] {
      ops.llama().RmsNormBackward(*stream, {.m = tokens,
                                            .c = hidden,
                                            .dy = y.tensor(),
                                            .x = x.tensor(),
                                            .gamma = gamma.tensor(),
                                            .rstd = rstd.floats(),
                                            .dx = dx.tensor(),
                                            .dgamma = dgamma.floats()});
    }));
    ZF_RETURN_IF_ERROR(
        measure("gelu forward", 2 * type_bytes, [&] { ops.GeluForward(*stream, count, x.tensor(), y.tensor()); }));
    // As wide as a feed-forward layer, so of fewer tokens. A row of x is two halves, of which y has one: 3 halves
    // forward, 5 backward.
    const int64_t gates = tokens / 4, width = 2 * hidden;
    ZF_RETURN_IF_ERROR(measure("swiglu forward", 3 * type_bytes / 2, [&] {
      ops.llama().GateForward(*stream, {.m = gates, .n = width, .x = x.tensor(), .y = y.tensor()});
    }));
    ZF_RETURN_IF_ERROR(measure("swiglu backward", 5 * type_bytes / 2, [&] {
      ops.llama().GateBackward(*stream, {.m = gates, .n = width, .x = x.tensor(), .dy = y.tensor(), .dx = dx.tensor()});
    }));
    if (dtype == device::DType::kF32) continue;
    ZF_ASSIGN_OR_RETURN(const RandomRoom wide, rooms.Make(count, 1.0f, device::DType::kF32));
    const auto convert = [&](const RandomRoom& from, const RandomRoom& to) {
      return [&] { ops.Convert(*stream, count, from.tensor(), to.tensor()); };
    };
    ZF_RETURN_IF_ERROR(measure("from fp32", type_bytes + 4, convert(wide, y)));
    ZF_RETURN_IF_ERROR(measure("to fp32", type_bytes + 4, convert(y, wide)));
  }
  return rates;
}

}  // namespace zerofleet::bench
