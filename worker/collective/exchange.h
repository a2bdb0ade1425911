// What the algorithms (ordered_reduce.h, routed_gather.h) require of a backend's transport: messages in steps, and
// sums.
//
// A step's messages are posted together; its buffers are free again once the step is released. Post(s) comes after
// Release(s - kExchangeDepth), so that while one step is summed the next is in transit. On a host Arrive and Release
// wait; on a GPU everything is enqueued, and only streams wait.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_EXCHANGE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/status.h"
#include "worker/device/tensor.h"

namespace zerofleet::collective {

// Steps in flight: one being summed, the next arriving.
inline constexpr int kExchangeDepth = 2;

class ExchangeTransport {
 public:
  struct Incoming {
    int peer;
    std::byte* data;
    int64_t bytes;
  };
  struct Outgoing {
    int peer;
    const std::byte* data;
    int64_t bytes;
  };
  // No message is empty. Messages from one rank to another are matched in the order of these lists and of the steps.
  struct Messages {
    std::vector<Incoming> incoming;
    std::vector<Outgoing> outgoing;
  };

  virtual ~ExchangeTransport() = default;

  virtual absl::Status Post(int64_t step, const Messages& messages) = 0;
  // Makes what `step` receives available to everything called afterwards.
  virtual absl::Status Arrive(int64_t step) = 0;
  // As SumInOrder (sum.h).
  virtual void Sum(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                   const float* initial) = 0;
  virtual absl::Status Release(int64_t step) = 0;
};

// Runs `steps` steps: `fill` lists a step's messages, `finish` uses what it has received.
inline absl::Status RunExchange(ExchangeTransport& transport, int64_t steps,
                                absl::FunctionRef<void(int64_t step, ExchangeTransport::Messages& messages)> fill,
                                absl::FunctionRef<void(int64_t step)> finish) {
  ExchangeTransport::Messages messages;
  for (int64_t step = 0; step <= steps; step++) {
    if (step < steps) {
      messages.incoming.clear();
      messages.outgoing.clear();
      fill(step, messages);
      ZF_RETURN_IF_ERROR(transport.Post(step, messages));
    }
    if (step == 0) continue;
    ZF_RETURN_IF_ERROR(transport.Arrive(step - 1));
    finish(step - 1);
    ZF_RETURN_IF_ERROR(transport.Release(step - 1));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_EXCHANGE_H_
