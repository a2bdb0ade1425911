// A throw-away run, watched until enough steps were timed; see bench_step.h.
#include "cli/bench_step.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/config.h"
#include "cli/local_fleet.h"
#include "cli/preflight.h"
#include "cli/run_record.h"
#include "cli/temporary_directory.h"
#include "worker/model/spec.h"

namespace zerofleet {
namespace {

// Enough bytes for every sequence of a step, from a fixed seed.
std::string MadeUpText(const StepBenchOptions& options) {
  std::mt19937_64 random(1);
  std::string text(static_cast<size_t>((options.context + 1) * options.global_sequences * 2), '\0');
  for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
  return text;
}

absl::StatusOr<v1::Config> BenchConfig(const StepBenchOptions& options, const std::string& dir) {
  const std::string text = JoinPath(dir, "text.txt");
  ZF_RETURN_IF_ERROR(WriteFileAtomically(text, MadeUpText(options)));
  const auto set = [](const std::string& flag, const std::string& key, const std::string& value) {
    return ConfigOverride{flag, absl::StrCat(key, "=", value)};
  };
  return ParseConfig("", "bench",
                     {set("--preset", "model.preset", options.preset),
                      set("--context", "model.context", absl::StrCat(options.context)),
                      set("--workers", "parallel.workers", absl::StrCat(options.workers)),
                      set("--stage", "parallel.zero_stage", absl::StrCat(options.zero_stage)),
                      set("--precision", "precision", options.precision),
                      set("--sequences", "batch.global_sequences", absl::StrCat(options.global_sequences)),
                      set("bench", "data.train", absl::StrCat("[", text, "]")), set("bench", "data.format", "text"),
                      set("bench", "steps", "1000000"), set("bench", "checkpoint.every_steps", "0"),
                      set("bench", "checkpoint.dir", JoinPath(dir, "run"))});
}

StepRate RateOf(const v1::StartEvent& start, std::vector<v1::StepEvent> steps, const v1::Config& config) {
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.seconds() < b.seconds(); });
  const v1::StepEvent& median = steps[steps.size() / 2];
  StepRate rate = {start.parameters(), median.seconds(), median.tokens_per_second(), median.mfu(), 0};
  const absl::StatusOr<ModelSpec> spec = ModelSpec::Create(config.model());
  if (spec.ok() && median.mfu() > 0) {
    rate.peak_flops_per_second = spec->FlopsPerToken() * median.tokens_per_second() / median.mfu();
  }
  return rate;
}

}  // namespace

absl::StatusOr<StepRate> BenchStep(const StepBenchOptions& options, const StopSignals& signals) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> directory, TemporaryDirectory::Create());
  ZF_ASSIGN_OR_RETURN(const v1::Config config, BenchConfig(options, directory->path()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> run, RunDirectory::Hold(config.checkpoint().dir()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<LocalFleet> fleet, LocalFleet::Start({config, "none", 0}, *run));
  RunRecord record;
  std::vector<v1::StepEvent> steps;
  bool enough = false;
  const absl::Status watch = fleet->coordinator().Watch([&](const v1::Event& event) {
    record.Add(event);
    if (event.has_step() && event.step().step() > 1 && !enough) steps.push_back(event.step());
    enough = static_cast<int64_t>(steps.size()) >= options.steps;
    if (enough || signals.Wait(0) != 0) fleet->coordinator().CancelWatch();
  });
  if (!enough) fleet->Reap();
  if (!enough && absl::IsCancelled(watch)) return absl::CancelledError("stopped by a signal");
  if (!enough) return fleet->Diagnosis(record, watch);
  fleet->KillAll();
  return RateOf(*record.start, std::move(steps), config);
}

}  // namespace zerofleet
