// A temporary run, followed until enough steps have been timed; see bench_step.h.
#include "cli/commands/bench_step.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "bench/device_timing.h"
#include "cli/config/config.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/scrape.h"
#include "cli/launcher/temporary_directory.h"
#include "cli/launcher/timed_steps.h"
#include "cli/planner/fraction.h"
#include "worker/device/device.h"
#include "worker/model/presets.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

// Random letters or, if `vocab` is given, random tokens from all of it: an embedding of 50257 rows of which only 26 are
// used would be a different workload. Enough for all sequences of two steps, from a fixed seed; beyond kMostTokens they
// come round again, which takes no less time.
std::string SyntheticData(const v1::Config& config, int64_t vocab) {
  constexpr int64_t kMostTokens = 1 << 24;
  const int64_t sample = config.model().context() + 1;
  const int64_t count = std::max(std::min(sample * config.batch().global_sequences() * 2, kMostTokens), sample);
  if (vocab != 0) return RandomTokens(count, vocab);
  std::mt19937_64 random(1);
  std::string data;
  for (int64_t i = 0; i < count; ++i) data.push_back(static_cast<char>('a' + random() % 26));
  return data;
}

int64_t VocabularyOf(const StepBenchOptions& options) {
  if (options.vocab != 0) return options.vocab;
  const model::ModelPreset* preset = model::FindPreset(options.preset);
  return preset == nullptr ? 0 : preset->vocab;
}

StepRate RateOf(const TimedSteps& timed, const v1::Config& config) {
  const v1::StepEvent& median = timed.median();
  StepRate rate = {.device = timed.start.device(),
                   .parameters = timed.start.parameters(),
                   .micro_sequences = config.batch().micro_sequences(),
                   .vocab = config.model().vocab(),
                   .median_seconds = median.seconds(),
                   .tokens_per_second = median.tokens_per_second(),
                   .mfu = median.mfu(),
                   .memory = std::nullopt,
                   .refused_shapes = {},
                   .ceilings = {},
                   .profile = {}};
  const absl::StatusOr<model::ModelSpec> spec = model::ModelSpec::Create(config.model());
  if (spec.ok() && median.mfu() > 0) {
    rate.peak_flops_per_second = spec->FlopsPerToken() * median.tokens_per_second() / median.mfu();
  }
  return rate;
}

// The device's memory, from a worker's metrics; null on a device that uses the host's memory.
std::optional<StepMemory> MemoryIn(const std::map<std::string, double>& metrics) {
  const auto bytes = [&](const std::string& name) {
    const auto found = metrics.find(name);
    return found == metrics.end() ? 0 : static_cast<int64_t>(found->second);
  };
  const StepMemory memory = {.planned = bytes("zerofleet_worker_allocator_reserved_bytes{space=\"device\"}"),
                             .runtime = bytes("zerofleet_worker_device_memory_runtime_bytes"),
                             .used = bytes("zerofleet_worker_device_memory_used_bytes"),
                             .total = bytes("zerofleet_worker_device_memory_total_bytes")};
  if (memory.total == 0) return std::nullopt;
  return memory;
}

std::map<std::string, int> RefusedShapesIn(const std::map<std::string, double>& metrics) {
  constexpr char kBegin[] = "zerofleet_worker_refused_shapes_total{operation=\"";
  std::map<std::string, int> refused;
  for (const auto& [series, count] : metrics) {
    if (!absl::StartsWith(series, kBegin)) continue;
    const size_t begin = sizeof(kBegin) - 1;
    refused[series.substr(begin, series.find('"', begin) - begin)] = static_cast<int>(count);
  }
  return refused;
}

}  // namespace

absl::StatusOr<v1::Config> StepBenchConfig(const StepBenchOptions& options, const std::string& dir) {
  const int64_t vocab = VocabularyOf(options);
  const std::string data = JoinPath(dir, "data");
  const auto set = [](const std::string& flag, const std::string& key, const std::string& value) {
    return ConfigOverride{flag, absl::StrCat(key, "=", value)};
  };
  std::vector<ConfigOverride> overrides = {
      set("--preset", "model.preset", options.preset),
      set("--context", "model.context", absl::StrCat(options.context)),
      set("--workers", "parallel.workers", absl::StrCat(options.workers)),
      set("--stage", "parallel.zero_stage", absl::StrCat(options.zero_stage)),
      set("--precision", "precision", options.precision),
      set("--device", "device", options.device),
      set("--collectives", "collectives", options.collectives),
      set("--sequences", "batch.global_sequences", absl::StrCat(options.global_sequences)),
      set("bench", "data.train", absl::StrCat("[", data, "]")),
      set("bench", "data.format", vocab == 0 ? "text" : "tokens_u32"),
      set("bench", "steps", "1000000"),
      set("bench", "checkpoint.every_steps", "0"),
      set("bench", "checkpoint.dir", JoinPath(dir, "run"))};
  if (options.vocab != 0) overrides.push_back(set("--vocab", "model.vocab", absl::StrCat(options.vocab)));
  if (options.micro_sequences != 0) {
    overrides.push_back(set("--micro-sequences", "batch.micro_sequences", absl::StrCat(options.micro_sequences)));
  }
  for (const std::string& value : options.sets) overrides.push_back({"--set", value});
  ZF_ASSIGN_OR_RETURN(const v1::Config config, ParseConfig("", "bench", overrides));
  ZF_RETURN_IF_ERROR(WriteFileAtomically(data, SyntheticData(config, vocab)));
  return WithPlannedFraction(config, ThreadsPerWorker(config.parallel().workers()));
}

namespace {

// The memory bandwidth that each of `workers` workers has while all of them use it.
absl::StatusOr<double> MemoryPerWorker(const std::string& kind, int workers) {
  constexpr int64_t kFloats = 32 << 20;  // 128 MiB a vector
  constexpr int kRounds = 5;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({.kind = kind, .threads = ThreadsPerWorker(1)}));
  ZF_ASSIGN_OR_RETURN(const double all, bench::MemoryBytesPerSecond(*device, kFloats, kRounds));
  return all / workers;
}

}  // namespace

absl::StatusOr<StepRate> BenchStep(const StepBenchOptions& options, StopSignals& signals) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> directory, TemporaryDirectory::Create());
  ZF_ASSIGN_OR_RETURN(const v1::Config config, StepBenchConfig(options, directory->path()));
  ZF_RETURN_IF_ERROR(CheckDevice(config));
  ZF_ASSIGN_OR_RETURN(const std::string device, device::ResolveDeviceKind(config.device()));
  StepCeilings ceilings;
  const std::string profiles = JoinPath(directory->path(), "profiles");
  if (options.profile) {
    ZF_ASSIGN_OR_RETURN(ceilings.bytes_per_second, MemoryPerWorker(device, options.workers));
    ZF_RETURN_IF_ERROR(CreateDirectories(profiles));
    setenv(device::OpProfile::kVariable, profiles.c_str(), 1);  // the workers inherit it
  }
  const absl::Cleanup no_more_profiles = [] { unsetenv(device::OpProfile::kVariable); };
  std::vector<std::map<std::string, double>> metrics(options.profile ? options.workers : 1);
  std::function<absl::Status(int)> while_training;
  if (device != "cpu" || options.profile) {  // read while the worker still trains, so that its memory is that of a step
    while_training = [&metrics](int metrics_port) -> absl::Status {
      for (size_t rank = 0; rank < metrics.size(); ++rank) {
        ZF_ASSIGN_OR_RETURN(metrics[rank], ScrapeMetrics(metrics_port + 1 + static_cast<int>(rank)));
      }
      return absl::OkStatus();
    };
  }
  // The profile excludes the warm-up, in which memory is touched for the first time.
  Profiles before, after;
  StepsToTime wanted{.warm_up = options.warm_up, .steps = options.steps};
  if (options.profile) {
    wanted.warmed_up = [&]() -> absl::Status {
      ZF_ASSIGN_OR_RETURN(before, ReadProfiles(profiles));
      return absl::OkStatus();
    };
  }
  ZF_ASSIGN_OR_RETURN(const TimedSteps timed, TimeSteps(config, wanted, signals, while_training));
  StepRate rate = RateOf(timed, config);
  if (device != "cpu") rate.memory = MemoryIn(metrics[0]);
  rate.refused_shapes = RefusedShapesIn(metrics[0]);
  if (!options.profile) return rate;
  ceilings.flops_per_second = rate.peak_flops_per_second / options.workers;
  rate.ceilings = ceilings;
  ZF_ASSIGN_OR_RETURN(after, ReadProfiles(profiles));
  rate.profile = ProfilesBetween(before, after, ceilings);
  for (size_t rank = 0; rank < std::min(rate.profile.size(), metrics.size()); ++rank) {
    rate.profile[rank].phases = PhasesIn(metrics[rank]);
  }
  return rate;
}

}  // namespace zerofleet::cli
