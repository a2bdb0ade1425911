// The machines that a plan is made for, given by flags. They need not include the machine that makes the plan.
#ifndef ZEROFLEET_CLI_PLANNER_CLUSTER_H_
#define ZEROFLEET_CLI_PLANNER_CLUSTER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

// A device's datasheet figures. Bandwidths count one direction.
struct GpuRow {
  const char* name;
  const char* title;
  int64_t memory_bytes;     // as in its product name; the driver leaves less
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
  int64_t shared_bytes = 0;     // of one rank, where device and host are the same memory; 0: they are not
  int64_t outside_bytes = 0;    // of one rank, in addition to its plan
  double efficiency = 0;        // the fraction of the peak that matrix products reach
  double flops_per_second = 0;  // the peak
  double memory_bytes_per_second = 0;
  double peer_bytes_per_second = 0;         // of one device to others of its node, one direction
  double link_bytes_per_second = 0;         // of one device to other nodes, one direction
  double host_link_bytes_per_second = 0;    // of one device to its host
  double host_memory_bytes_per_second = 0;  // of one node
  double nvme_bytes_per_second = 0;         // of one node's disks, read and write together
  double operation_seconds = 0;             // fixed time of a gather or a reduction, in addition to its bytes
  bool overlaps = true;                     // collectives and copies run beside products

  int64_t nodes() const { return (gpus + node_gpus - 1) / node_gpus; }
  double host_bytes_per_gpu() const {
    return static_cast<double>(host_bytes) / static_cast<double>(gpus < node_gpus ? gpus : node_gpus);
  }
};

// What a GPU's memory holds in addition to the plan's rows: context, libraries and their workspaces. An assumption, not
// a measurement.
inline constexpr int64_t kGpuOutsideBytes = int64_t{1} << 30;

// The flags' values as given; empty if a flag was not given.
struct ClusterFlags {
  std::string gpus = "", gpu = "", gpu_memory = "", node_gpus = "", link = "", host_memory = "", efficiency = "",
              nvme = "";

  // Whether any flag requests a plan on a cluster. --node-gpus alone does not, since it is also used without a cluster,
  // for the traffic.
  bool given() const {
    return !gpus.empty() || !gpu.empty() || !gpu_memory.empty() || !link.empty() || !host_memory.empty() ||
           !efficiency.empty() || !nvme.empty();
  }
};

// Without flags: 1 h100, nodes of 8, 50 GB/s between nodes, 2 TiB of host memory at 400 GB/s and 5 GB/s of disks per
// node, an efficiency of 0.6 (bench/results/2026-11-28-h100.md). InvalidArgument: one line that names the flag and says
// what it accepts.
absl::StatusOr<Cluster> ParseCluster(const ClusterFlags& flags);

// Parses "80GiB" or, in decimal units, "80GB"; 1 byte to 1 EiB. InvalidArgument otherwise, naming `flag`.
absl::StatusOr<int64_t> ParseSize(const std::string& flag, const std::string& text);
// Parses "50GB/s", "400Gb/s" (bits) or "1.5TiB/s", to bytes per second; more than 0 and at most 1 EB/s.
absl::StatusOr<double> ParseBandwidth(const std::string& flag, const std::string& text);
// Parses a whole number from `least` to `most`.
absl::StatusOr<int64_t> ParseWhole(const std::string& flag, const std::string& text, int64_t least, int64_t most);

// "64 h100 of 80.0 GiB, 8 on a node, 50.0 GB/s between nodes, 2.0 TiB of host memory a node"
std::string ClusterText(const Cluster& cluster);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_CLUSTER_H_
