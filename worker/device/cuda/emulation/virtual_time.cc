// See virtual_time.h. The times of streams and events are in streams.cc.
#include "worker/device/cuda/emulation/virtual_time.h"

#include <algorithm>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet::device::cuda::emulation {
namespace {

struct VirtualTime {
  absl::Mutex mutex;
  bool passes ABSL_GUARDED_BY(mutex) = false;
  VirtualCosts costs ABSL_GUARDED_BY(mutex);
  std::map<const void*, int64_t> written ABSL_GUARDED_BY(mutex);
};

VirtualTime& TheVirtualTime() {
  static VirtualTime& state = *new VirtualTime;  // outlives every thread
  return state;
}

thread_local int64_t host_time = 0;

void SetVirtualTime(bool passes, const VirtualCosts& costs) {
  VirtualTime& state = TheVirtualTime();
  absl::MutexLock lock(&state.mutex);
  state.passes = passes;
  state.costs = costs;
  state.written.clear();
}

}  // namespace

void StartVirtualTime(const VirtualCosts& costs) { SetVirtualTime(true, costs); }
void StopVirtualTime() { SetVirtualTime(false, {}); }

bool VirtualTimePasses() {
  absl::MutexLock lock(&TheVirtualTime().mutex);
  return TheVirtualTime().passes;
}

VirtualCosts CurrentCosts() {
  absl::MutexLock lock(&TheVirtualTime().mutex);
  return TheVirtualTime().costs;
}

int64_t HostTime() { return host_time; }
void SpendHostTime(int64_t microseconds) { host_time += microseconds; }
void AwaitHostTime(int64_t time) { host_time = std::max(host_time, time); }

void HostWrote(const void* data) {
  absl::MutexLock lock(&TheVirtualTime().mutex);
  TheVirtualTime().written[data] = host_time;
}

int64_t WrittenAt(const void* data) {
  absl::MutexLock lock(&TheVirtualTime().mutex);
  const auto found = TheVirtualTime().written.find(data);
  return found == TheVirtualTime().written.end() ? 0 : found->second;
}

}  // namespace zerofleet::device::cuda::emulation
