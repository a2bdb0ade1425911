// What the benches of device ops share: random data, and the time of a launch on the device's own clock.
//
// A device that runs asynchronously is timed by events around several launches: a host clock would time the
// enqueueing, and the gap before a single kernel would count as its work. Times are the best of several rounds: other
// work on the machine only ever makes a round slower.
#ifndef ZEROFLEET_BENCH_DEVICE_TIMING_H_
#define ZEROFLEET_BENCH_DEVICE_TIMING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "worker/device/ops.h"

namespace zerofleet::bench {

// The types a device is benched in: fp32 and bf16, on a GPU fp16 too.
std::vector<device::DType> BenchTypes(const device::Device& device);

// Device memory full of random values.
class RandomRoom {
 public:
  RandomRoom(std::unique_ptr<device::Reservation> memory, device::DType dtype)
      : memory_(std::move(memory)), dtype_(dtype) {}

  device::Tensor tensor() const { return {memory_->data(), dtype_}; }
  float* floats() const { return reinterpret_cast<float*>(memory_->data()); }

 private:
  std::unique_ptr<device::Reservation> memory_;
  device::DType dtype_;
};

// Makes vectors of independent normal values: on zeros a GPU draws less power and runs faster than in training.
class RandomRooms {
 public:
  RandomRooms(device::Device& device, device::Stream& stream) : device_(device), stream_(stream) {}

  absl::StatusOr<RandomRoom> Make(int64_t count, float deviation, device::DType dtype);

 private:
  device::Device& device_;
  device::Stream& stream_;
  uint64_t next_id_ = 0;
};

// How many sets of operands of `set_bytes` to use in rotation, so that no launch finds its own in a GPU's caches; 1 on
// the CPU, whose caches a layer's operands outgrow or belong in.
int64_t SetsToRotate(const device::Device& device, int64_t set_bytes);

// Seconds of one launch in the fastest of `rounds` rounds, after one that is not counted. `launch` gets increasing
// numbers, by which it chooses a set of operands.
absl::StatusOr<double> BestLaunchSeconds(const device::Device& device, device::Stream& stream, int rounds,
                                         const std::function<void(int64_t number)>& launch);

// Bytes per second that this device's memory moves, reads and writes counted, over vectors of `count` floats: on a GPU
// a copy from device to device, on the CPU y += a, three streams as in STREAM's triad.
absl::StatusOr<double> MemoryBytesPerSecond(device::Device& device, int64_t count, int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_DEVICE_TIMING_H_
