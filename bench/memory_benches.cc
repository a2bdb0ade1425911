// Replays one trace under many limits; see memory_benches.h.
#include "bench/memory_benches.h"

#include <algorithm>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/caching_allocator.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/model.h"
#include "worker/model/presets.h"
#include "worker/zero/layout.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::bench {
namespace {

constexpr int kSteps = 12;
constexpr int64_t kPrecision = 100;  // limits are tried in steps of the peak divided by this
constexpr int64_t kMostPeaks = 4;    // limits go up to this many times the peak
constexpr int64_t kShortest = 64;    // the fewest tokens to which a batch is padded
constexpr uint32_t kSeed = 1;

// The tokens to which each step's batch is padded: the context or, if `padded`, a random number that stands for the
// batch's longest sequence.
std::vector<int64_t> Times(int64_t context, bool padded) {
  std::vector<int64_t> times(kSteps, context);
  std::mt19937 draw(kSeed);  // the same on every machine
  for (int64_t& time : times) {
    if (padded) time = kShortest + static_cast<int64_t>(draw() % static_cast<uint32_t>(context - kShortest + 1));
  }
  return times;
}

absl::StatusOr<int64_t> ReservedBytes(const TrainingShape& shape) {
  device::DryDevice device;
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(shape.model));
  const int64_t time = shape.model.context();
  ZF_ASSIGN_OR_RETURN(
      const std::unique_ptr<model::Model> model,
      model::Model::Create(shape.model, {shape.dtype, shape.sequences, time, shape.checkpointing}, device));
  const zero::ZeroLayout layout(spec, {.stage = 3, .dtype = shape.dtype, .world_size = shape.ranks});
  const memory::MemoryPlan plan = zero::PlanMemory(*model, layout, shape.sequences * time);
  const memory::Category counted[] = {memory::Category::kActivations, memory::Category::kGathered,
                                      memory::Category::kGradients, memory::Category::kBuffers};
  int64_t bytes = -plan.SharedBytes(memory::Space::kDevice);
  for (const memory::Category category : counted) bytes += plan.Bytes(memory::Space::kDevice, category);
  return bytes;
}

struct Failure {
  double free_share, fragmentation_ratio;
};

// The failure at which the trace runs out of memory, if it does.
std::optional<Failure> Replay(const std::vector<AllocationEvent>& trace, int64_t limit) {
  CachingAllocator allocator(limit);
  for (const AllocationEvent& event : trace) {
    if (event.bytes == 0) {
      allocator.Free(event.tensor);
    } else if (!allocator.Allocate(event.tensor, event.bytes)) {
      return Failure{1 - static_cast<double>(allocator.allocated()) / static_cast<double>(limit),
                     allocator.figures().FragmentationRatio()};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<FragmentationWork> FragmentationWorks() {
  std::vector<FragmentationWork> works;
  for (const char* name : {"gpt2-355m", "gpt2-1558m"}) {
    for (const bool padded : {false, true}) {
      TrainingShape shape;
      shape.model = model::FindPreset(name)->Config();
      shape.checkpointing.segment = 1;
      shape.sequences = 8;
      shape.times = Times(shape.model.context(), padded);
      shape.ranks = 8;
      works.push_back({absl::StrCat(name, padded ? ", padded batches" : ", full batches"), shape});
    }
  }
  return works;
}

absl::StatusOr<FragmentationResult> BenchFragmentation(const FragmentationWork& work) {
  FragmentationResult result;
  result.name = work.name;
  ZF_ASSIGN_OR_RETURN(const std::vector<AllocationEvent> trace, TraceTraining(work.shape));
  TrainingShape longest = work.shape;
  longest.times = {work.shape.model.context()};
  ZF_ASSIGN_OR_RETURN(const std::vector<AllocationEvent> longest_step, TraceTraining(longest));
  ZF_ASSIGN_OR_RETURN(result.reserved_bytes, ReservedBytes(work.shape));
  result.events = static_cast<int64_t>(trace.size());
  result.peak_bytes = PeakBytes(trace);
  result.placed_bytes = PlacedBytes(longest_step);
  bool fails_above = false;
  for (int64_t part = kMostPeaks * kPrecision; part >= kPrecision; --part) {
    const int64_t limit = result.peak_bytes / kPrecision * part;
    const std::optional<Failure> failure = Replay(trace, limit);
    fails_above = fails_above || failure.has_value();
    if (!fails_above) result.cached_bytes = limit;
    if (!failure || limit < result.placed_bytes || failure->free_share <= result.free_share) continue;
    result.limit_bytes = limit;
    result.free_share = failure->free_share;
    result.fragmentation_ratio = failure->fragmentation_ratio;
  }
  return result;
}

}  // namespace zerofleet::bench
