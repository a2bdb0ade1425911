// Names and layout; see shard_format.h.
#include "worker/checkpoint/shard_format.h"

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "worker/checkpoint/manifest.h"

namespace zerofleet::checkpoint {

std::string ShardFileName(int rank) { return absl::StrFormat("rank-%05d.safetensors", rank); }

bool IsShardFileName(const std::string& name) {
  return absl::StartsWith(name, "rank-") && absl::EndsWith(name, ".safetensors");
}

std::vector<SafetensorsTensor> ShardTensors(const optim::OptimizerRow& optimizer, int64_t elements) {
  std::vector<SafetensorsTensor> tensors;
  for (const optim::OptimizerVector& vector : optimizer.vectors) {
    ZF_CHECK(vector.dtype == device::DType::kF32);  // the only type in this version of the format
    SafetensorsTensor tensor;
    tensor.name = vector.name;
    tensor.dtype = kStoredDType;
    tensor.shape = {elements};
    tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace zerofleet::checkpoint
