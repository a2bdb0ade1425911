// A checkpoint's low-rank adapters, in memory, to be added to the weights of their products.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_MERGED_ADAPTERS_H_
#define ZEROFLEET_WORKER_CHECKPOINT_MERGED_ADAPTERS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/weights_of.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// The endings of the names of an adapter's two tensors, behind the product's name.
inline constexpr std::string_view kEndOfA = ".lora_A.weight", kEndOfB = ".lora_B.weight";

// Whether the tensor of this name belongs to an adapter.
bool IsAdapter(std::string_view tensor_name);

class MergedAdapters {
 public:
  // Loads the adapters of the checkpoint with this valid manifest; none if the model has none.
  static absl::StatusOr<MergedAdapters> Load(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                                             WeightsOf which = WeightsOf::kStep);

  bool Has(const std::string& weight) const { return adapters_.contains(weight); }
  // Adds scale * B A to `values`, which are the elements from `first` on of a weight that has an adapter.
  void AddTo(const std::string& weight, int64_t first, std::span<float> values) const;

 private:
  struct Adapter {
    std::span<const float> a, b;  // (rank, columns), (rows, rank)
    int64_t columns = 0;
  };

  int64_t rank_ = 0;
  float scale_ = 0;
  std::vector<float> values_;
  std::map<std::string, Adapter> adapters_;  // keyed by the weight's name
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MERGED_ADAPTERS_H_
