// The functions of NCCL that worker/collective calls; see vendor_library.h.
#include <nccl.h>

#include "absl/strings/str_cat.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {
namespace {

const VendorLibrary& Nccl() {
  static const VendorLibrary library(absl::StrCat("libnccl.so.", NCCL_MAJOR));
  return library;
}

}  // namespace

absl::Status OpenNccl() { return Nccl().status(); }

}  // namespace zerofleet::device::cuda

using zerofleet::device::cuda::Nccl;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { ZF_PASS_ON(Nccl, ncclGetUniqueId, ncclSystemError, id); }

ncclResult_t ncclGetVersion(int* version) { ZF_PASS_ON(Nccl, ncclGetVersion, ncclSystemError, version); }

const char* ncclGetErrorString(ncclResult_t result) {
  ZF_PASS_ON(Nccl, ncclGetErrorString, "NCCL is not on this machine", result);
}

const char* ncclGetLastError(ncclComm_t comm) { ZF_PASS_ON(Nccl, ncclGetLastError, "", comm); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  ZF_PASS_ON(Nccl, ncclCommInitRankConfig, ncclSystemError, comm, ranks, id, rank, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { ZF_PASS_ON(Nccl, ncclCommFinalize, ncclSystemError, comm); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) { ZF_PASS_ON(Nccl, ncclCommDestroy, ncclSystemError, comm); }

ncclResult_t ncclCommAbort(ncclComm_t comm) { ZF_PASS_ON(Nccl, ncclCommAbort, ncclSystemError, comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  ZF_PASS_ON(Nccl, ncclCommGetAsyncError, ncclSystemError, comm, error);
}

ncclResult_t ncclGroupStart() { ZF_PASS_ON(Nccl, ncclGroupStart, ncclSystemError); }

ncclResult_t ncclGroupEnd() { ZF_PASS_ON(Nccl, ncclGroupEnd, ncclSystemError); }

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  ZF_PASS_ON(Nccl, ncclAllGather, ncclSystemError, from, to, count, type, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  ZF_PASS_ON(Nccl, ncclBroadcast, ncclSystemError, from, to, count, type, root, comm, stream);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  ZF_PASS_ON(Nccl, ncclSend, ncclSystemError, from, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  ZF_PASS_ON(Nccl, ncclRecv, ncclSystemError, to, count, type, peer, comm, stream);
}
