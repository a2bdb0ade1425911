// A device: memory, streams, and the typed ops (ops.h) that run on them.
//
// A backend is a folder that implements Device and Ops; device_factory.cc is the only file that knows which exist.
// Work is enqueued on a Stream and runs in order there. Ops return nothing: a failure sticks to its stream and is
// returned by the next Synchronize, so that layers read as maths. On the CPU a stream runs its work at once.
#ifndef ZEROFLEET_WORKER_DEVICE_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet {

class Ops;

// One contiguous reservation of device memory, zeroed, released on destruction.
class Reservation {
 public:
  virtual ~Reservation() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// An ordered queue of device work. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for everything enqueued; returns the first failure since the last call.
  virtual absl::Status Synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string kind() const = 0;         // "cpu" | "cuda", as --device spells it
  virtual std::string description() const = 0;  // model, instruction set or compute capability, threads

  // ResourceExhausted, naming the size, when the device cannot hold it. Aligned to 64 bytes at least.
  virtual absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;

  // Copies between any two of host and device memory, in stream order.
  virtual void Copy(Stream& stream, void* to, const void* from, int64_t bytes) = 0;

  // Whether the host can read and write the device's memory in place.
  virtual bool host_addressable() const = 0;

  virtual Ops& ops() = 0;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto | cpu | cuda
  int threads = 1;            // CPU: compute threads of this worker
};

// FailedPrecondition when the kind is not in this build or has no hardware.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceOptions& options);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_DEVICE_H_
