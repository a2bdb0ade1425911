// The kernel probe, and facts as messages; see environment.h.
#include "worker/trainer/environment.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "coordinator/environment.h"
#include "worker/device/ops.h"

namespace zerofleet::trainer {
namespace {

// The shapes of the probe: sums long enough for their order to show, and sides that no tile divides.
constexpr int64_t kProbeTokens = 40, kProbeIn = 1000, kProbeOut = 72, kProbeHeads = 3, kProbeHeadSize = 8;
static_assert(3 * kProbeHeads * kProbeHeadSize == kProbeOut);

// Device memory, handed out piece by piece.
class ProbeMemory {
 public:
  explicit ProbeMemory(std::byte* data) : next_(data) {}
  void* Take(int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    std::byte* const piece = next_;
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return piece;
  }
  device::Tensor Take(int64_t count, device::DType dtype) { return {Take(count * device::DTypeBytes(dtype)), dtype}; }
  float* Floats(int64_t count) { return static_cast<float*>(Take(count * 4)); }

 private:
  std::byte* next_;
};

void AddFact(Environment& environment, const std::string& name, const std::string& value) {
  v1::Fact& fact = *environment.Add();
  fact.set_name(name);
  fact.set_value(value);
}

// The digest of a linear layer, its weights' gradient, GELU, layer norm and attention on normal random numbers.
absl::StatusOr<std::string> ProbeKernels(device::Device& device, device::DType dtype) {
  constexpr int64_t kBytes = int64_t{2} << 20;
  const device::AttentionShape shape = {1, kProbeTokens, kProbeHeads, kProbeHeadSize};
  device::Ops& ops = device.ops();
  const int64_t scratch_bytes = ops.AttentionScratchBytes(shape);
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Reservation> reservation, device.Reserve(kBytes + scratch_bytes));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  ProbeMemory memory(reservation->data());
  uint64_t stream_id = 0;
  const auto normal = [&](int64_t count) {
    float* const values = memory.Floats(count);
    ops.FillNormal(*stream, {count, /*seed=*/1, ++stream_id, /*first=*/0, /*deviation=*/1, values});
    const device::Tensor converted = memory.Take(count, dtype);
    ops.Convert(*stream, count, {values, device::DType::kF32}, converted);
    return converted;
  };
  const device::Tensor x = normal(kProbeTokens * kProbeIn), w = normal(kProbeOut * kProbeIn), bias = normal(kProbeOut);
  constexpr int64_t kOut = kProbeTokens * kProbeOut;
  std::byte* const results = static_cast<std::byte*>(memory.Take(0));
  const device::Tensor qkv = memory.Take(kOut, dtype), gelu = memory.Take(kOut, dtype), norm = memory.Take(kOut, dtype);
  const device::Tensor attended = memory.Take(kOut / 3, dtype);
  float* const dw = memory.Floats(kProbeOut * kProbeIn);
  float* const mean = memory.Floats(kProbeTokens);
  float* const rstd = memory.Floats(kProbeTokens);
  float* const logsumexp = memory.Floats(kProbeHeads * kProbeTokens);
  const int64_t result_bytes = static_cast<std::byte*>(memory.Take(0)) - results;
  ops.LinearForward(*stream,
                    {.m = kProbeTokens, .n = kProbeOut, .k = kProbeIn, .x = x, .w = w, .bias = bias, .y = qkv});
  ops.LinearBackwardWeight(*stream, {.m = kProbeTokens, .n = kProbeOut, .k = kProbeIn, .dy = qkv, .x = x, .dw = dw});
  ops.GeluForward(*stream, kOut, qkv, gelu);
  ops.LayerNormForward(*stream, {.m = kProbeTokens,
                                 .c = kProbeOut,
                                 .epsilon = 1e-5F,
                                 .x = qkv,
                                 .gamma = bias,
                                 .beta = bias,
                                 .y = norm,
                                 .mean = mean,
                                 .rstd = rstd});
  ops.AttentionForward(
      *stream,
      {.shape = shape, .qkv = norm, .out = attended, .logsumexp = logsumexp, .scratch = memory.Take(scratch_bytes)});
  std::unique_ptr<device::Reservation> host;
  const std::byte* read = results;
  if (!device.host_addressable()) {
    ZF_ASSIGN_OR_RETURN(host, device.ReserveHost(result_bytes));
    device.Copy(*stream, host->data(), results, result_bytes);
    read = host->data();
  }
  ZF_RETURN_IF_ERROR(stream->Synchronize());
  return Digest128({reinterpret_cast<const char*>(read), static_cast<size_t>(result_bytes)});
}

// "2 files, 1.2 MB, digest 0123..."; the digest covers sizes and sampled contents.
std::string TextOf(const v1::DataFiles& files) {
  int64_t count = files.more_files(), bytes = files.more_bytes();
  std::string entries = files.more_xxh3_128();
  for (const v1::DataFile& file : files.files()) {
    ++count;
    bytes += file.bytes();
    absl::StrAppend(&entries, " ", file.bytes(), ":", file.sampled_xxh3_128());
  }
  return absl::StrCat(count, count == 1 ? " file, " : " files, ", bytes, " bytes, digest ", Digest128(entries));
}

}  // namespace

absl::StatusOr<Environment> ArithmeticOf(device::Device& device, device::DType dtype) {
  Environment environment;
  for (const device::Fact& fact : device.arithmetic()) AddFact(environment, fact.name, fact.value);
  ZF_ASSIGN_OR_RETURN(const std::string probe, ProbeKernels(device, dtype));
  AddFact(environment, absl::StrCat("results of a kernel probe in ", device::DTypeName(dtype)), probe);
  return environment;
}

Environment DataOf(const v1::DataFingerprint& data) {
  Environment environment;
  AddFact(environment, coordinator::kTrainingData, TextOf(data.train()));
  if (data.has_validation()) AddFact(environment, coordinator::kValidationData, TextOf(data.validation()));
  return environment;
}

std::string ChangesSince(const Environment& before, const Environment& now) {
  std::string text;
  for (const v1::Fact& fact : now) {
    const auto earlier = std::find_if(before.begin(), before.end(),
                                      [&fact](const v1::Fact& known) { return known.name() == fact.name(); });
    if (earlier == before.end() || earlier->value() == fact.value()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", fact.name(), " ", fact.value(), ", was ", earlier->value());
  }
  return text;
}

}  // namespace zerofleet::trainer
