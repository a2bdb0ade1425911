// What tests use to control the NCCL of emulation/nccl.cc.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_EMULATION_NCCL_CONTROL_H_
#define ZEROFLEET_WORKER_COLLECTIVE_EMULATION_NCCL_CONTROL_H_

#include <nccl.h>

namespace zerofleet::collective::nccl_emulation {

// From now on the communicators of `rank` report this asynchronous error, until it is set to ncclSuccess.
void SetAsyncError(int rank, ncclResult_t error);

// From now on ncclGetUniqueId returns this, until it is set to ncclSuccess.
void SetUniqueIdResult(ncclResult_t result);

// From now on ncclGetVersion reports this.
void SetVersion(int version);

// With true, these calls do not return from now on, until this is called with false; those held back then continue.
enum class Ending { kFinalize, kDestroy, kAbort };
void Hold(Ending call, bool hold);

// Communicators that have not been destroyed or aborted.
int LiveCommunicators();

}  // namespace zerofleet::collective::nccl_emulation

#endif  // ZEROFLEET_WORKER_COLLECTIVE_EMULATION_NCCL_CONTROL_H_
