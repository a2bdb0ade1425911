// Low-rank adapters of a checkpoint in memory, to be added to the weights they stand beside.
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

// How the names of its two tensors end, behind that of the product.
inline constexpr std::string_view kEndOfA = ".lora_A.weight", kEndOfB = ".lora_B.weight";

// Whether a tensor of this name is an adapter's.
bool IsAdapter(std::string_view tensor_name);

class MergedAdapters {
 public:
  // Those of a valid manifest's checkpoint, in memory; none where the model has none.
  static absl::StatusOr<MergedAdapters> Load(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                                             WeightsOf which = WeightsOf::kStep);

  bool Has(const std::string& weight) const { return adapters_.contains(weight); }
  // Adds scale * B A to elements `first` on of a weight that has one.
  void AddTo(const std::string& weight, int64_t first, std::span<float> values) const;

 private:
  struct Adapter {
    std::span<const float> a, b;  // (rank, columns), (rows, rank)
    int64_t columns = 0;
  };

  int64_t rank_ = 0;
  float scale_ = 0;
  std::vector<float> values_;
  std::map<std::string, Adapter> adapters_;  // by the weight's name
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MERGED_ADAPTERS_H_
