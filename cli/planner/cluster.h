// The machines that a plan is made for: given by flags, not the machine that it is made on.
#ifndef ZEROFLEET_CLI_PLANNER_CLUSTER_H_
#define ZEROFLEET_CLI_PLANNER_CLUSTER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

// A device by its datasheet; bandwidths in one direction.
struct GpuRow {
  const char* name;
  const char* title;
  int64_t memory_bytes;     // as its name says it; what the driver leaves is less
  double flops_per_second;  // dense 16-bit matrix products, fp32 sums
  double memory_bytes_per_second;
  double peer_bytes_per_second;  // to the other devices of its node
  double host_bytes_per_second;  // to the host's memory
};

std::span<const GpuRow> GpuRows();

struct Cluster {
  std::string device;  // "h100"
  int64_t gpus = 1, node_gpus = 8;
  int64_t device_bytes = 0;     // of one device
  int64_t host_bytes = 0;       // of one node
  int64_t shared_bytes = 0;     // of one rank, in both spaces together, where they are the same memory; 0: they are not
  int64_t outside_bytes = 0;    // of one rank, beside its plan
  double efficiency = 0;        // the share of the peak that matrix products reach
  double flops_per_second = 0;  // the peak
  double memory_bytes_per_second = 0;
  double peer_bytes_per_second = 0;         // within a node, of one device, in one direction
  double link_bytes_per_second = 0;         // between nodes, likewise
  double host_link_bytes_per_second = 0;    // to the host
  double host_memory_bytes_per_second = 0;  // of one node
  double nvme_bytes_per_second = 0;         // of one node's disks, read and write together
  double operation_seconds = 0;             // of a gather or a reduction, beside its bytes
  bool overlaps = true;                     // collectives and copies run beside products

  int64_t nodes() const { return (gpus + node_gpus - 1) / node_gpus; }
  double host_bytes_per_gpu() const {
    return static_cast<double>(host_bytes) / static_cast<double>(gpus < node_gpus ? gpus : node_gpus);
  }
};

// What a GPU's memory holds beside the plan's rows: context, libraries and their workspaces. Assumed: it has not been
// measured.
inline constexpr int64_t kGpuOutsideBytes = int64_t{1} << 30;

// As the flags have it; what is empty or 0 was not given.
struct ClusterFlags {
  std::string gpus = "", gpu = "", gpu_memory = "", node_gpus = "", link = "", host_memory = "", efficiency = "",
              nvme = "";

  // Whether any of them asks for a plan on a cluster. --node-gpus alone does not: it also has an effect on traffic.
  bool given() const {
    return !gpus.empty() || !gpu.empty() || !gpu_memory.empty() || !link.empty() || !host_memory.empty() ||
           !efficiency.empty() || !nvme.empty();
  }
};

// Without flags: 1 h100 of nodes of 8, 50 GB/s between nodes, 2 TiB and 400 GB/s of host memory a node, 5 GB/s of its
// disks, half the peak.
// InvalidArgument, one line that names the flag and what would be right.
absl::StatusOr<Cluster> ParseCluster(const ClusterFlags& flags);

// "80GiB", and also "80GB", decimal; 1 byte to 1 EiB. InvalidArgument otherwise, naming `flag`.
absl::StatusOr<int64_t> ParseSize(const std::string& flag, const std::string& text);
// "50GB/s", "400Gb/s" (bits), "1.5TiB/s"; more than 0 and at most 1 EB/s.
absl::StatusOr<double> ParseBandwidth(const std::string& flag, const std::string& text);
// A whole number from `least` to `most`.
absl::StatusOr<int64_t> ParseWhole(const std::string& flag, const std::string& text, int64_t least, int64_t most);

// "64 h100 of 80.0 GiB, 8 on a node, 50.0 GB/s between nodes, 2.0 TiB of host memory a node"
std::string ClusterText(const Cluster& cluster);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_CLUSTER_H_
