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

// The types that benches use on a device: fp32 and bf16, and on a GPU also fp16.
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

// Makes vectors of independent normal values: with zeros a GPU would draw less power and run faster than in training.
class RandomRooms {
 public:
  RandomRooms(device::Device& device, device::Stream& stream) : device_(device), stream_(stream) {}

  absl::StatusOr<RandomRoom> Make(int64_t count, float deviation, device::DType dtype);

 private:
  device::Device& device_;
  device::Stream& stream_;
  uint64_t next_id_ = 0;
};

// How many sets of operands of `set_bytes` to use in rotation, so that no launch finds its operands in a GPU's caches.
// 1 on the CPU: a layer's operands either outgrow its caches, or are in them in training too.
int64_t SetsToRotate(const device::Device& device, int64_t set_bytes);

// Seconds of one launch in the fastest of `rounds` rounds, after a round that is not counted. `launch` receives
// increasing numbers, by which it chooses a set of operands.
absl::StatusOr<double> BestLaunchSeconds(const device::Device& device, device::Stream& stream, int rounds,
                                         const std::function<void(int64_t number)>& launch);

// The memory bandwidth of this device in bytes per second, reads and writes counted, over vectors of `count` floats: on
// a GPU by a copy from device to device, on the CPU by y += a, three streams as in STREAM's triad.
absl::StatusOr<double> MemoryBytesPerSecond(device::Device& device, int64_t count, int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_DEVICE_TIMING_H_
