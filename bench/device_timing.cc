// Random data and event times; see device_timing.h.
#include "bench/device_timing.h"

#include <algorithm>
#include <limits>

#include "base/status.h"

namespace zerofleet::bench {
namespace {

// Four times the largest second-level cache (60 MB) of any supported GPU.
constexpr int64_t kRotatedBytes = int64_t{256} << 20;
constexpr int64_t kMostSets = 16;
// Launches per round, which share the gap of some microseconds before the first kernel.
constexpr int64_t kLaunchesARound = 8;

}  // namespace

std::vector<device::DType> BenchTypes(const device::Device& device) {
  std::vector<device::DType> types = {device::DType::kF32, device::DType::kBF16};
  if (!device.host_addressable()) types.push_back(device::DType::kF16);
  return types;
}

absl::StatusOr<RandomRoom> RandomRooms::Make(int64_t count, float deviation, device::DType dtype) {
  constexpr uint64_t kSeed = 1;
  ZF_ASSIGN_OR_RETURN(auto memory, device_.Reserve(count * int64_t{sizeof(float)}));
  RandomRoom room(std::move(memory), dtype);
  device_.ops().FillNormal(stream_, {.count = count,
                                     .seed = kSeed,
                                     .stream_id = next_id_++,
                                     .first = 0,
                                     .deviation = deviation,
                                     .to = room.floats()});
  // Converted in place: the narrower values take the front of the memory.
  if (dtype != device::DType::kF32)
    device_.ops().Convert(stream_, count, {room.floats(), device::DType::kF32}, room.tensor());
  ZF_RETURN_IF_ERROR(stream_.Synchronize());
  return room;
}

int64_t SetsToRotate(const device::Device& device, int64_t set_bytes) {
  if (device.host_addressable()) return 1;
  return std::clamp((kRotatedBytes + set_bytes - 1) / set_bytes, int64_t{1}, kMostSets);
}

absl::StatusOr<double> BestLaunchSeconds(const device::Device& device, device::Stream& stream, int rounds,
                                         const std::function<void(int64_t)>& launch) {
  const int64_t launches = device.host_addressable() ? 1 : kLaunchesARound;
  double best = std::numeric_limits<double>::infinity();
  int64_t number = 0;
  for (int round = 0; round <= rounds; ++round) {
    const std::shared_ptr<device::Event> start = stream.RecordTime();
    for (int64_t i = 0; i < launches; ++i) launch(number++);
    const std::shared_ptr<device::Event> end = stream.RecordTime();
    ZF_RETURN_IF_ERROR(stream.Synchronize());
    if (round > 0) best = std::min(best, end->SecondsSince(*start) / static_cast<double>(launches));
  }
  return best;
}

absl::StatusOr<double> MemoryBytesPerSecond(device::Device& device, int64_t count, int rounds) {
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  RandomRooms rooms(device, *stream);
  ZF_ASSIGN_OR_RETURN(const RandomRoom from, rooms.Make(count, 1.0f, device::DType::kF32));
  ZF_ASSIGN_OR_RETURN(const RandomRoom to, rooms.Make(count, 1.0f, device::DType::kF32));
  const int64_t streams = device.host_addressable() ? 3 : 2;
  const int64_t vector_bytes = count * int64_t{sizeof(float)};
  ZF_ASSIGN_OR_RETURN(const double seconds, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) {
                        if (device.host_addressable()) {
                          device.ops().Accumulate(*stream, count, from.tensor(), to.floats());
                        } else {
                          device.Copy(*stream, to.tensor().data, from.tensor().data, vector_bytes);
                        }
                      }));
  return static_cast<double>(streams * vector_bytes) / seconds;
}

}  // namespace zerofleet::bench
