// A device: memory, streams, and the typed ops (ops.h) that run on them.
//
// A backend is a folder that implements Device and Ops; device_factory.cc is the only file that knows which exist.
// Work is enqueued on a Stream and runs in order there. Ops return nothing: a failure sticks to its stream and is
// returned by the next Synchronize, so that layers read as maths. On the CPU a stream runs its work at once; on a GPU the
// host runs ahead, and only an Event or Synchronize tells how far the device has come.
#ifndef ZEROFLEET_WORKER_DEVICE_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/dtype.h"

namespace zerofleet {

class Ops;

// One contiguous reservation of memory, zeroed, released on destruction.
class Reservation {
 public:
  virtual ~Reservation() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// A place in a stream's work. Any thread may ask it; it stays valid after its stream has gone on.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the work before it is done; the error if the device has failed.
  virtual absl::StatusOr<bool> Reached() const = 0;
  // Waits until it is. On a device that hangs this does not return: whoever needs a deadline polls Reached.
  virtual absl::Status Wait() const = 0;
  // Looks for at most `seconds`: true once the work is done, or will not be because the device has failed.
  bool SettledWithin(double seconds) const;
  // Seconds from `earlier`, of the same device, to this one, by the device's clock; both must have been reached.
  virtual double SecondsSince(const Event& earlier) const = 0;
};

// An ordered queue of device work. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for everything enqueued; returns the first failure since the last call.
  virtual absl::Status Synchronize() = 0;
  // The first failure since then, as far as it is known already; it stays.
  virtual absl::Status failure() const = 0;
  // Marks everything enqueued so far.
  virtual std::shared_ptr<Event> Record() = 0;
  // What is enqueued from now on runs after `event`, of any stream of the same device. Does not hold up the host.
  virtual void Wait(const Event& event) = 0;
};

// The whole device as its driver counts it, other processes' share included.
struct DeviceMemory {
  int64_t total_bytes = 0, used_bytes = 0;
  int64_t workspace_bytes = 0;  // what this backend keeps for its ops outside the reservations it was asked for
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string kind() const = 0;         // "cpu" | "cuda", as --device spells it
  virtual std::string description() const = 0;  // model, instruction set or compute capability, threads or UUID
  // What tells this device from all others, however it is numbered; empty where ranks cannot get in each other's way.
  virtual std::string unique_id() const = 0;

  // ResourceExhausted, naming the size, when the device cannot hold it. Aligned to 64 bytes at least.
  virtual absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) = 0;
  // Host memory that the device copies to and from while the host goes on (pinned, on a GPU).
  virtual absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  // One whose work goes before that of others, where the device can choose.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateUrgentStream() { return CreateStream(); }

  // Copies between any two of host and device memory, in stream order. Host memory must be ReserveHost's, or the host
  // waits for the stream.
  virtual void Copy(Stream& stream, void* to, const void* from, int64_t bytes) = 0;

  // Whether the host can read and write the device's memory in place, as soon as an op returns.
  virtual bool host_addressable() const = 0;

  // FLOP/s of dense matrix products in this type by the datasheet; 0 where none says, and it must be measured.
  virtual double datasheet_flops(DType dtype) const = 0;
  // nullopt where the device's memory is the host's.
  virtual std::optional<DeviceMemory> memory() const = 0;

  virtual Ops& ops() = 0;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto | cpu | cuda
  int threads = 1;            // CPU: compute threads of this worker
  int local_rank = 0;         // CUDA: the worker's number on its host; takes that one of the visible GPUs, modulo their number
};

// The kinds this build has.
std::vector<std::string> DeviceKindsBuilt();

// The kind that `kind` ("auto", "cpu" or "cuda") comes to on this machine: auto is cuda where a GPU is, else cpu.
// InvalidArgument for a name that is none, FailedPrecondition when the kind is not in this build or has no hardware here.
// Cheap: nothing is set up on the device.
absl::StatusOr<std::string> ResolveDeviceKind(const std::string& kind);

// Errors as ResolveDeviceKind's, and whatever the device says when it is set up.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceOptions& options);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_DEVICE_H_
