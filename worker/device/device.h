// A device: memory, streams, and the typed ops (ops.h) that run on them.
//
// A backend is a folder that implements Device and Ops; device_factory.cc is the only file that knows which backends
// exist. Work is enqueued on a Stream and runs in order there. Ops return nothing: a failure sticks to its stream and
// is returned by the next Synchronize, so that layers read as maths. On the CPU a stream runs its work at once; on a
// GPU the host runs ahead, and only an Event or Synchronize says how far the device has got.
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

namespace zerofleet::device {

class Ops;

// One contiguous reservation of memory, zeroed, released on destruction.
class Reservation {
 public:
  virtual ~Reservation() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// A point in a stream's work. Any thread may query it; it stays valid after its stream has moved on.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the work before it is done; the error if the device has failed.
  virtual absl::StatusOr<bool> Reached() const = 0;
  // Waits until the work before it is done. Does not return on a device that hangs: a caller with a deadline polls
  // Reached. To be called on what RecordToWait or RecordTime returned, where it may take long.
  virtual absl::Status Wait() const = 0;
  // Polls for at most `seconds`; true once the work is done, or never will be because the device has failed.
  bool SettledWithin(double seconds) const;
  // Seconds from `earlier`, of the same device, to this event, by the device's clock; both come from RecordTime and
  // must have been reached.
  virtual double SecondsSince(const Event& earlier) const = 0;
};

// An ordered queue of device work. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for everything enqueued; returns the first failure since the last Synchronize.
  virtual absl::Status Synchronize() = 0;
  // The first failure since the last Synchronize, as far as is known yet. Does not clear it.
  virtual absl::Status failure() const = 0;
  // Marks everything enqueued so far, for streams to wait for and for the host to poll (Reached, SettledWithin). Its
  // Wait may keep a core busy, and it may have no time.
  virtual std::shared_ptr<Event> Record() = 0;
  // As Record, for the host to wait for: the thread sleeps in Wait.
  virtual std::shared_ptr<Event> RecordToWait() { return Record(); }
  // As RecordToWait, with the time: both events of a SecondsSince come from here.
  virtual std::shared_ptr<Event> RecordTime() { return RecordToWait(); }
  // Makes what is enqueued from now on run after `event`, from any stream of the same device. Does not hold up the
  // host.
  virtual void Wait(const Event& event) = 0;
  // The driver's handle, for a library that enqueues work of its own (CUstream, on a GPU); null where there is none.
  virtual void* native_handle() const { return nullptr; }
};

// Something that the bits of results depend on: ("instruction set", "AVX2").
struct Fact {
  std::string name, value;
};

// The whole device as its driver counts it, including other processes' share.
struct DeviceMemory {
  int64_t total_bytes = 0, used_bytes = 0;
  int64_t workspace_bytes = 0;  // what this backend keeps for its ops outside the reservations requested
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string kind() const = 0;         // "cpu" | "cuda", as --device spells it
  virtual std::string description() const = 0;  // model, instruction set or compute capability, threads or UUID
  // What the bits of its ops' results depend on besides their inputs: model, instruction set, libraries. In a fixed
  // order. After the first call PinInstructionSet comes too late.
  virtual std::vector<Fact> arithmetic() const { return {}; }
  // Distinguishes this device from all others, however it is numbered; empty where sharing a device is not a conflict.
  virtual std::string unique_id() const = 0;

  // The number by which other libraries in this process know it (CUDA's ordinal); 0 on the CPU.
  virtual int ordinal() const { return 0; }

  // ResourceExhausted, naming the size, when the device cannot hold it. Aligned to at least 64 bytes.
  virtual absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) = 0;
  // Host memory that the device copies to and from while the host continues (pinned, on a GPU).
  virtual absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  // A stream whose work has priority over that of others, where the device supports it.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateUrgentStream() { return CreateStream(); }

  // Copies between any two of host and device memory, in stream order. Host memory must come from ReserveHost, or the
  // host waits for the stream.
  virtual void Copy(Stream& stream, void* to, const void* from, int64_t bytes) = 0;

  // Whether the host can read and write the device's memory in place, as soon as an op returns.
  virtual bool host_addressable() const = 0;

  // FLOP/s of dense matrix products in this type by the datasheet; 0 where no datasheet gives them and they must be
  // measured.
  virtual double datasheet_flops(DType dtype) const = 0;
  // nullopt where the device's memory is the host's.
  virtual std::optional<DeviceMemory> memory() const = 0;

  virtual Ops& ops() = 0;

  // The host as a device of its own: its ops work on memory from ReserveHost, with this worker's share of the cores. A
  // CPU device returns itself.
  virtual Device& host() = 0;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto | cpu | cuda
  int threads = 1;            // compute threads of this worker on the CPU
  int local_rank = 0;         // CUDA: the worker's number on its host, which selects a visible GPU modulo their count
};

// The kinds this build supports.
std::vector<std::string> DeviceKindsBuilt();

// The kind that `kind` ("auto", "cpu" or "cuda") stands for on this machine: auto is cuda if there is a GPU that this
// build can use, else cpu. InvalidArgument for an unknown name, FailedPrecondition when the kind is not in this build
// or has no hardware here; CUDA's error, for auto too, where a GPU is there and fails. Cheap: nothing is set up on the
// device.
absl::StatusOr<std::string> ResolveDeviceKind(const std::string& kind);

// Limits the CPU ops of this process to `isa` from now on: auto (the CPU's best), sse4 (the least that oneDNN has),
// avx2, avx512 (without bf16 instructions) or amx (with them). Call it before any op runs. InvalidArgument for another
// word, FailedPrecondition where the CPU lacks the set or ops have run already.
absl::Status PinInstructionSet(const std::string& isa);

// Bytes that each thread of the CPU's ops takes for packed operands of products in `dtype`, in addition to what a
// device reserves (docs/planning.md).
int64_t PackedOperandBytes(DType dtype);

// Errors as from ResolveDeviceKind, and any error from setting up the device.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceOptions& options);

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_DEVICE_H_
