// The table of devices, and figures with units; see cluster.h.
#include "cli/planner/cluster.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/config/nearest.h"
#include "coordinator/placement.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr double kTera = 1e12, kGiga = 1e9;

// NVLink's published figures count both directions, so half of them stands here. Host links are 16 lanes of PCIe.
constexpr GpuRow kGpus[] = {
    {"v100", "V100 SXM2 32 GB", 32 * kGiB, 125 * kTera, 900 * kGiga, 150 * kGiga, 16 * kGiga},
    {"a100", "A100 SXM4 80 GB", 80 * kGiB, 312 * kTera, 2039 * kGiga, 300 * kGiga, 32 * kGiga},
    {"a100-40", "A100 SXM4 40 GB", 40 * kGiB, 312 * kTera, 1555 * kGiga, 300 * kGiga, 32 * kGiga},
    {"l40s", "L40S 48 GB", 48 * kGiB, 362 * kTera, 864 * kGiga, 32 * kGiga, 32 * kGiga},
    {"h100", "H100 SXM5 80 GB", 80 * kGiB, 989 * kTera, 3350 * kGiga, 450 * kGiga, 64 * kGiga},
    {"h200", "H200 SXM5 141 GB", 141 * kGiB, 989 * kTera, 4800 * kGiga, 450 * kGiga, 64 * kGiga},
    {"b200", "B200 SXM6 180 GB", 180 * kGiB, 2250 * kTera, 8000 * kGiga, 900 * kGiga, 64 * kGiga},
};
constexpr char kDefaultGpu[] = "h100";
constexpr int64_t kMostNodeGpus = 1024;
constexpr double kExa = 1e18;

struct Unit {
  const char* name;
  double multiple;
};
constexpr Unit kUnits[] = {{"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                           {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"TB", 1e12},
                           {"Mb", 1e6 / 8}, {"Gb", 1e9 / 8},    {"Tb", 1e12 / 8}};

// The value of `text`, a number with a unit; units of bits only if `bits`. NaN for other text.
double NumberWithUnit(std::string_view text, bool bits) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return NAN;
  std::string_view unit = text.substr(static_cast<size_t>(stop - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Unit& known : kUnits) {
    if (unit == known.name && (bits || unit.back() != 'b')) return value * known.multiple;
  }
  return NAN;
}

absl::Status Bad(const std::string& flag, const std::string& wanted, const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": must be ", wanted, ", got \"", absl::CHexEscape(text), "\""));
}

absl::StatusOr<const GpuRow*> FindGpu(const std::string& name) {
  std::vector<std::string> names;
  for (const GpuRow& row : kGpus) {
    if (name == row.name) return &row;
    names.emplace_back(row.name);
  }
  const std::string nearest = Nearest(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "--gpu: must be ", absl::StrJoin(names, ", "), ", got \"", absl::CHexEscape(name), "\"",
      nearest.empty() ? "; for another give --gpu-memory too" : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::StatusOr<double> ParseShare(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error == std::errc() && stop == end && value > 0 && value <= 1) return value;
  return Bad(flag, "a share of the peak, more than 0 and at most 1, such as 0.5", text);
}

}  // namespace

std::span<const GpuRow> GpuRows() { return kGpus; }

absl::StatusOr<int64_t> ParseSize(const std::string& flag, const std::string& text) {
  const double value = NumberWithUnit(text, /*bits=*/false);
  if (!(value >= 1 && value <= kExa)) return Bad(flag, "a size such as 80GiB or 80GB, at most 1e18 bytes", text);
  return std::llround(value);
}

absl::StatusOr<double> ParseBandwidth(const std::string& flag, const std::string& text) {
  std::string_view amount = text;
  double value = NAN;
  if (amount.ends_with("/s")) {
    amount.remove_suffix(2);
    value = NumberWithUnit(amount, /*bits=*/true);
  }
  if (!(value > 0 && value <= kExa)) {
    return Bad(flag, "a bandwidth such as 50GB/s or 400Gb/s, more than 0 and at most 1e18 bytes per second", text);
  }
  return value;
}

absl::StatusOr<int64_t> ParseWhole(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= most) return value;
  return Bad(flag, absl::StrCat("a whole number from ", least, " to ", most), text);
}

absl::StatusOr<Cluster> ParseCluster(const ClusterFlags& flags) {
  const auto or_else = [](const std::string& text, const char* fallback) { return text.empty() ? fallback : text; };
  ZF_ASSIGN_OR_RETURN(const GpuRow* const gpu, FindGpu(or_else(flags.gpu, kDefaultGpu)));
  Cluster cluster = {.device = gpu->name,
                     .device_bytes = gpu->memory_bytes,
                     .outside_bytes = kGpuOutsideBytes,
                     .flops_per_second = gpu->flops_per_second,
                     .memory_bytes_per_second = gpu->memory_bytes_per_second,
                     .peer_bytes_per_second = gpu->peer_bytes_per_second,
                     .host_link_bytes_per_second = gpu->host_bytes_per_second,
                     .host_memory_bytes_per_second = 400 * kGiga};
  ZF_ASSIGN_OR_RETURN(cluster.gpus, ParseWhole("--gpus", or_else(flags.gpus, "1"), 1, coordinator::kMostRanks));
  ZF_ASSIGN_OR_RETURN(cluster.node_gpus, ParseWhole("--node-gpus", or_else(flags.node_gpus, "8"), 1, kMostNodeGpus));
  if (!flags.gpu_memory.empty()) {
    ZF_ASSIGN_OR_RETURN(cluster.device_bytes, ParseSize("--gpu-memory", flags.gpu_memory));
  }
  ZF_ASSIGN_OR_RETURN(cluster.host_bytes, ParseSize("--host-memory", or_else(flags.host_memory, "2TiB")));
  ZF_ASSIGN_OR_RETURN(cluster.link_bytes_per_second, ParseBandwidth("--link", or_else(flags.link, "50GB/s")));
  ZF_ASSIGN_OR_RETURN(cluster.nvme_bytes_per_second, ParseBandwidth("--nvme", or_else(flags.nvme, "5GB/s")));
  ZF_ASSIGN_OR_RETURN(cluster.efficiency, ParseShare("--efficiency", or_else(flags.efficiency, "0.6")));
  return cluster;
}

std::string ClusterText(const Cluster& cluster) {
  if (cluster.shared_bytes > 0) {
    return absl::StrCat("this machine's ", cluster.device, ", ", HumanBytes(cluster.shared_bytes), " for each of ",
                        cluster.gpus, cluster.gpus == 1 ? " worker" : " workers",
                        absl::StrFormat(", products at %.4g GFLOP/s, memory at %.3g GB/s",
                                        cluster.flops_per_second * cluster.efficiency / kGiga,
                                        cluster.memory_bytes_per_second / kGiga));
  }
  return absl::StrCat(cluster.gpus, " ", cluster.device, " of ", HumanBytes(cluster.device_bytes), ", ",
                      cluster.node_gpus, " on a node, ",
                      absl::StrFormat("%.4g GB/s", cluster.link_bytes_per_second / kGiga), " each between nodes, ",
                      HumanBytes(cluster.host_bytes), " of host memory a node");
}

}  // namespace zerofleet::cli
