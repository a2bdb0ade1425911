// `zerofleet bench`: figures of this machine, each next to its ceiling.
#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "bench/checkpoint_benches.h"
#include "bench/collective_benches.h"
#include "bench/coordinator_benches.h"
#include "bench/data_benches.h"
#include "bench/kernel_benches.h"
#include "bench/layer_benches.h"
#include "bench/memory_benches.h"
#include "bench/offload_benches.h"
#include "cli/commands/bench_coordinator.h"
#include "cli/commands/bench_step.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/config/config.h"
#include "cli/launcher/stop_signals.h"
#include "cli/launcher/temporary_directory.h"
#include "cli/report/table.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "services/common/address.h"
#include "services/session/rendezvous.h"
#include "worker/collective/network.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  bool json = false;
  std::string device = "auto";
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int ranks = 2, team = 0;
  std::string rendezvous, listen, interface;
  bench::CoordinatorBenchOptions coordinator;
  int64_t parameters = 50'000'000;
  bool offload = false;
  std::string offload_directory;
  int64_t megabytes = 512;
  std::string directory;  // empty: the temporary directory
  StepBenchOptions step;
};

constexpr int kRounds = 5;  // for each kernel; the best round counts

std::string Giga(double value) { return absl::StrFormat("%.1f", value / 1e9); }
std::string Percent(double part, double whole) {
  return whole > 0 ? absl::StrFormat("%.0f%%", 100 * part / whole) : "-";
}

// The results in both forms: as rows of a table and as JSON objects.
struct Results {
  TextTable table;
  Json rows = Json::array();
  std::vector<std::pair<std::string, TextTable>> more = {};  // further tables, each with the line to print above it
};

absl::StatusOr<Results> Gemm(const BenchFlags& flags) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({flags.device, flags.threads}));
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::GemmRate> rates,
                      bench::BenchGemm(*device, bench::Gpt2Gemms(*device), kRounds));
  Results results{TextTable({"layer", "direction", "type", "m x n x k", "GFLOP/s", "peak GFLOP/s", "of peak"})};
  for (const bench::GemmRate& rate : rates) {
    results.table.Add({rate.layer, rate.direction, device::DTypeName(rate.dtype),
                       absl::StrCat(rate.m, " x ", rate.n, " x ", rate.k), Giga(rate.flops_per_second),
                       Giga(rate.peak_flops_per_second), Percent(rate.flops_per_second, rate.peak_flops_per_second)});
    results.rows.push_back({{"layer", rate.layer},
                            {"direction", rate.direction},
                            {"dtype", device::DTypeName(rate.dtype)},
                            {"m", rate.m},
                            {"n", rate.n},
                            {"k", rate.k},
                            {"flops_per_second", rate.flops_per_second},
                            {"peak_flops_per_second", rate.peak_flops_per_second},
                            {"datasheet_flops_per_second", rate.datasheet_flops_per_second}});
  }
  return results;
}

absl::StatusOr<Results> Attention(const BenchFlags& flags) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({flags.device, flags.threads}));
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::AttentionRate> rates,
                      bench::BenchAttention(*device, bench::Gpt2Attentions(*device), kRounds));
  Results results{TextTable({"attention", "direction", "type", "B x T x H x D", "GFLOP/s", "peak GFLOP/s", "of peak"})};
  for (const bench::AttentionRate& rate : rates) {
    const device::AttentionShape& shape = rate.shape;
    results.table.Add({rate.name, rate.direction, device::DTypeName(rate.dtype),
                       absl::StrCat(shape.batch, " x ", shape.time, " x ", shape.heads, " x ", shape.head_size),
                       Giga(rate.flops_per_second), Giga(rate.peak_flops_per_second),
                       Percent(rate.flops_per_second, rate.peak_flops_per_second)});
    results.rows.push_back({{"attention", rate.name},
                            {"direction", rate.direction},
                            {"dtype", device::DTypeName(rate.dtype)},
                            {"batch", shape.batch},
                            {"time", shape.time},
                            {"heads", shape.heads},
                            {"head_size", shape.head_size},
                            {"flops_per_second", rate.flops_per_second},
                            {"peak_flops_per_second", rate.peak_flops_per_second},
                            {"refusal", rate.refusal}});
  }
  return results;
}

absl::StatusOr<Results> Pointwise(const BenchFlags& flags) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({flags.device, flags.threads}));
  // An activation outgrows every cache.
  const int64_t tokens = device->host_addressable() ? 65536 : 131072, hidden = device->host_addressable() ? 768 : 1600;
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::PointwiseRate> rates,
                      bench::BenchPointwise(*device, tokens, hidden, kRounds));
  Results results{TextTable({"op", "type", "tokens x hidden", "GB/s", "memory GB/s", "of memory"})};
  for (const bench::PointwiseRate& rate : rates) {
    results.table.Add({rate.op, device::DTypeName(rate.dtype), absl::StrCat(rate.tokens, " x ", rate.hidden),
                       Giga(rate.bytes_per_second), Giga(rate.memory_bytes_per_second),
                       Percent(rate.bytes_per_second, rate.memory_bytes_per_second)});
    results.rows.push_back({{"op", rate.op},
                            {"dtype", device::DTypeName(rate.dtype)},
                            {"tokens", rate.tokens},
                            {"hidden", rate.hidden},
                            {"bytes_per_second", rate.bytes_per_second},
                            {"memory_bytes_per_second", rate.memory_bytes_per_second}});
  }
  return results;
}

absl::StatusOr<std::vector<bench::OptimizerRate>> OptimizerRates(const BenchFlags& flags, device::Device& device) {
  if (!flags.offload) return bench::BenchOptimizer(device, flags.parameters, kRounds);
  ZF_ASSIGN_OR_RETURN(const v1::Config config, DefaultConfig(flags.step.preset));
  if (!flags.offload_directory.empty()) {
    return bench::BenchUpdateOnDisk(device, config.model(), flags.offload_directory, kRounds);
  }
  return bench::BenchHostUpdate(device, config.model(), kRounds);
}

absl::StatusOr<Results> Optimizer(const BenchFlags& flags) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({flags.device, flags.threads}));
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::OptimizerRate> rates, OptimizerRates(flags, *device));
  const char* const beside = flags.offload_directory.empty() ? "memory" : "disk";
  Results results{TextTable({"optimizer", "precision", "parameters", "seconds", "GB/s", absl::StrCat(beside, " GB/s"),
                             absl::StrCat("of ", beside)})};
  for (const bench::OptimizerRate& rate : rates) {
    results.table.Add({rate.optimizer, rate.precision, HumanCount(static_cast<double>(rate.parameters)),
                       absl::StrFormat("%.4f", rate.seconds), Giga(rate.bytes_per_second),
                       Giga(rate.memory_bytes_per_second),
                       Percent(rate.bytes_per_second, rate.memory_bytes_per_second)});
    results.rows.push_back({{"optimizer", rate.optimizer},
                            {"precision", rate.precision},
                            {"parameters", rate.parameters},
                            {"seconds", rate.seconds},
                            {"bytes_per_second", rate.bytes_per_second},
                            {"memory_bytes_per_second", rate.memory_bytes_per_second}});
  }
  return results;
}

// The rates between processes of this machine or, with this process as one rank of a group, between several hosts.
absl::StatusOr<std::vector<bench::CollectiveRate>> CollectiveRates(const BenchFlags& flags) {
  bench::CollectiveBenchOptions options;
  options.ranks = flags.ranks;
  options.team = flags.team;
  // Must be first: it changes the environment, which no other thread may read meanwhile.
  collective::KeepLaunchOrder();
  if (!flags.interface.empty()) {
    ZF_RETURN_IF_ERROR(Annotate(collective::UseNetworkInterface(flags.interface), "--interface"));
  }
  if (flags.listen.empty() && flags.rendezvous.empty()) return bench::BenchCollectives(options);
  StopSignals signals;
  std::unique_ptr<services::RendezvousServer> server;
  std::string meeting_place = flags.rendezvous;
  if (!flags.listen.empty()) {
    ZF_ASSIGN_OR_RETURN(server, services::RendezvousServer::Start(flags.listen, flags.ranks));
    ZF_ASSIGN_OR_RETURN(services::Address address, services::ParseAddress(flags.listen));
    address.port = server->port();
    meeting_place = address.ToString();
  }
  const auto rates = bench::BenchCollectivesAcrossHosts(options, meeting_place, services::HostName(),
                                                        [&signals] { return signals.First() != 0; });
  if (!rates.ok()) return signals.Stopped(rates.status());
  return rates;
}

absl::StatusOr<Results> Collectives(const BenchFlags& flags) {
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::CollectiveRate> rates, CollectiveRates(flags));
  Results results{
      TextTable({"operation", "backend", "type", "ranks", "team", "size", "seconds", "busbw GB/s", "memory GB/s"})};
  for (const bench::CollectiveRate& rate : rates) {
    results.table.Add({collective::OperationName(rate.operation), rate.backend, device::DTypeName(rate.dtype),
                       absl::StrCat(rate.ranks), absl::StrCat(rate.team), HumanBytes(rate.bytes),
                       absl::StrFormat("%.6f", rate.seconds), Giga(rate.bus_bytes_per_second),
                       Giga(rate.memory_bytes_per_second)});
    results.rows.push_back({{"operation", collective::OperationName(rate.operation)},
                            {"backend", rate.backend},
                            {"dtype", device::DTypeName(rate.dtype)},
                            {"ranks", rate.ranks},
                            {"team", rate.team},
                            {"bytes", rate.bytes},
                            {"seconds", rate.seconds},
                            {"bus_bytes_per_second", rate.bus_bytes_per_second},
                            {"memory_bytes_per_second", rate.memory_bytes_per_second}});
  }
  return results;
}

absl::StatusOr<Results> Checkpoint(const BenchFlags& flags) {
  const std::string directory = flags.directory.empty() ? TemporaryParent() : flags.directory;
  ZF_ASSIGN_OR_RETURN(const bench::CheckpointRate rate,
                      bench::BenchCheckpoint({directory, flags.megabytes * 1'000'000}));
  Results results{TextTable({"directory", "shard", "write GB/s", "disk GB/s", "of disk", "read GB/s"})};
  const auto gigabytes = [](double value) { return absl::StrFormat("%.2f", value / 1e9); };
  results.table.Add(
      {directory, HumanBytes(rate.bytes), gigabytes(rate.write_bytes_per_second), gigabytes(rate.disk_bytes_per_second),
       Percent(rate.write_bytes_per_second, rate.disk_bytes_per_second), gigabytes(rate.read_bytes_per_second)});
  results.rows.push_back({{"directory", directory},
                          {"bytes", rate.bytes},
                          {"write_bytes_per_second", rate.write_bytes_per_second},
                          {"disk_bytes_per_second", rate.disk_bytes_per_second},
                          {"read_bytes_per_second", rate.read_bytes_per_second}});
  return results;
}

absl::StatusOr<Results> Data(const BenchFlags& flags) {
  const std::string directory = flags.directory.empty() ? TemporaryParent() : flags.directory;
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::DataRate> rates, bench::BenchData({.directory = directory}, kRounds));
  Results results{
      TextTable({"batches of", "M tokens/s", "plain reads, M tokens/s", "of them", "of 1 s at 1M tokens/s"})};
  for (const bench::DataRate& rate : rates) {
    results.table.Add({rate.order, absl::StrFormat("%.0f", rate.tokens_per_second / 1e6),
                       absl::StrFormat("%.0f", rate.read_tokens_per_second / 1e6),
                       Percent(rate.tokens_per_second, rate.read_tokens_per_second),
                       absl::StrFormat("%.2f%%", 100 * rate.share_at_a_million())});
    results.rows.push_back({{"order", rate.order},
                            {"tokens_per_second", rate.tokens_per_second},
                            {"read_tokens_per_second", rate.read_tokens_per_second},
                            {"share_at_a_million_tokens_per_second", rate.share_at_a_million()}});
  }
  return results;
}

absl::StatusOr<Results> CoordinatorOfMembers(const BenchFlags& flags) {
  ZF_ASSIGN_OR_RETURN(const bench::CoordinatorRate rate, BenchOwnCoordinator(flags.coordinator));
  Results results{TextTable({"members", "connections", "view in s", "training in s", "again in s", "at most",
                             "heartbeats/s", "cores", "memory formed", "at the end", "peak"})};
  results.table.Add({absl::StrCat(rate.members), absl::StrCat(rate.connections),
                     absl::StrFormat("%.3f", rate.view_seconds), absl::StrFormat("%.3f", rate.start_seconds),
                     absl::StrFormat("%.3f", rate.reform_seconds), absl::StrFormat("%.3f", rate.reform_most_seconds),
                     absl::StrFormat("%.0f", rate.heartbeats_per_second), absl::StrFormat("%.2f", rate.heartbeat_cores),
                     HumanBytes(rate.formed_bytes), HumanBytes(rate.last_bytes), HumanBytes(rate.peak_bytes)});
  results.rows.push_back({{"members", rate.members},
                          {"connections", rate.connections},
                          {"view_seconds", rate.view_seconds},
                          {"start_seconds", rate.start_seconds},
                          {"reform_seconds", rate.reform_seconds},
                          {"reform_most_seconds", rate.reform_most_seconds},
                          {"heartbeats_per_second", rate.heartbeats_per_second},
                          {"heartbeat_cores", rate.heartbeat_cores},
                          {"formed_bytes", rate.formed_bytes},
                          {"last_bytes", rate.last_bytes},
                          {"peak_bytes", rate.peak_bytes}});
  return results;
}

absl::StatusOr<Results> Fragmentation(const BenchFlags&) {
  Results results{TextTable(
      {"trace, GB", "peak", "arena", "reserved", "caching allocator", "fails at", "with free", "fragmented"})};
  const auto gigabytes = [](int64_t bytes) { return absl::StrFormat("%.3f", static_cast<double>(bytes) / 1e9); };
  for (const bench::FragmentationWork& work : bench::FragmentationWorks()) {
    ZF_ASSIGN_OR_RETURN(const bench::FragmentationResult result, bench::BenchFragmentation(work));
    const bool fails = result.limit_bytes > 0;
    results.table.Add({result.name, gigabytes(result.peak_bytes), gigabytes(result.placed_bytes),
                       gigabytes(result.reserved_bytes), gigabytes(result.cached_bytes),
                       fails ? gigabytes(result.limit_bytes) : "-", fails ? Percent(result.free_share, 1) : "-",
                       fails ? Percent(result.fragmentation_ratio, 1) : "-"});
    results.rows.push_back({{"trace", result.name},
                            {"events", result.events},
                            {"peak_bytes", result.peak_bytes},
                            {"arena_bytes", result.placed_bytes},
                            {"arena_fragmentation_ratio", 0.0},
                            {"reserved_bytes", result.reserved_bytes},
                            {"caching_allocator_bytes", result.cached_bytes},
                            {"failing_limit_bytes", result.limit_bytes},
                            {"free_share", result.free_share},
                            {"fragmentation_ratio", result.fragmentation_ratio}});
  }
  return results;
}

Json MemoryJson(const StepMemory& memory) {
  return {{"planned_bytes", memory.planned},
          {"runtime_bytes", memory.runtime},
          {"driver_used_bytes", memory.used},
          {"driver_total_bytes", memory.total}};
}

absl::StatusOr<Results> Step(const BenchFlags& flags) {
  StopSignals signals;
  StepBenchOptions step = flags.step;
  step.device = flags.device;
  ZF_ASSIGN_OR_RETURN(const StepRate rate, BenchStep(step, signals));
  std::vector<std::string> header = {"model",     "parameters",          "workers", "stage",
                                     "precision", "sequences x context", "seconds", "tokens/s",
                                     "MFU",       "GEMM peak GFLOP/s"};
  std::vector<std::string> row = {step.preset,
                                  HumanCount(static_cast<double>(rate.parameters)),
                                  absl::StrCat(step.workers),
                                  absl::StrCat(step.zero_stage),
                                  step.precision,
                                  absl::StrCat(step.global_sequences, " x ", step.context),
                                  absl::StrFormat("%.3f", rate.median_seconds),
                                  absl::StrFormat("%.0f", rate.tokens_per_second),
                                  absl::StrFormat("%.1f%%", 100 * rate.mfu),
                                  Giga(rate.peak_flops_per_second)};
  Json json = {{"model", step.preset},
               {"device", rate.device},
               {"parameters", rate.parameters},
               {"vocab", rate.vocab},
               {"workers", step.workers},
               {"zero_stage", step.zero_stage},
               {"precision", step.precision},
               {"context", step.context},
               {"global_sequences", step.global_sequences},
               {"micro_sequences", rate.micro_sequences},
               {"seconds", rate.median_seconds},
               {"tokens_per_second", rate.tokens_per_second},
               {"mfu", rate.mfu},
               {"peak_flops_per_second", rate.peak_flops_per_second}};
  if (rate.memory) {
    header.insert(header.end(), {"planned", "runtime", "in use by the driver"});
    row.insert(row.end(), {HumanBytes(rate.memory->planned), HumanBytes(rate.memory->runtime),
                           absl::StrCat(HumanBytes(rate.memory->used), " of ", HumanBytes(rate.memory->total))});
    json["memory"] = MemoryJson(*rate.memory);
    json["refused_shapes"] = rate.refused_shapes;
  }
  Results results{TextTable(header)};
  results.table.Add(row);
  for (size_t rank = 0; rank < rate.profile.size(); ++rank) {
    results.more.emplace_back(
        absl::StrFormat("rank %d, an average step; ideal: %s GFLOP/s, %s GB/s", rank,
                        Giga(rate.ceilings.flops_per_second), Giga(rate.ceilings.bytes_per_second)),
        ProfileTable(rate.profile[rank], rate.median_seconds));
    json["profile"].push_back(ProfileJson(rate.profile[rank]));
  }
  if (!rate.profile.empty()) json["memory_bytes_per_second_per_worker"] = rate.ceilings.bytes_per_second;
  results.rows.push_back(json);
  return results;
}

using Bench = absl::StatusOr<Results> (*)(const BenchFlags& flags);

CLI::App* AddBench(CLI::App& bench, const char* name, const char* what, Bench run,
                   const std::shared_ptr<BenchFlags>& flags, CommandBody& body) {
  CLI::App* command = bench.add_subcommand(name, what);
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->footer(absl::StrCat("Example:\n  zerofleet bench ", name));
  command->callback([=, &body] {
    body = [=](const Output& output) -> absl::StatusOr<int> {
      ZF_ASSIGN_OR_RETURN(const Results results, run(*flags));
      if (flags->json) {
        output.out << DumpJson({{"bench", name}, {"results", results.rows}}, 2) << "\n";
        return 0;
      }
      output.out << results.table.Render(0, output.out_terminal);
      for (const auto& [line, table] : results.more) {
        output.out << "\n" << line << "\n" << table.Render(0, output.out_terminal);
      }
      return 0;
    };
  });
  return command;
}

void AddDevice(CLI::App& command, BenchFlags& flags) {
  command.add_option("--device", flags.device, "Where to compute")->type_name("auto|cpu|cuda")->capture_default_str();
}

// The flags of benchmarks that run one kernel after another in this process.
void AddKernelFlags(CLI::App& command, BenchFlags& flags) {
  AddDevice(command, flags);
  command.add_option("--threads", flags.threads, "Compute threads on the CPU")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
}

void AddStepFlags(CLI::App& step, StepBenchOptions& options) {
  step.add_option("--preset", options.preset, "Named model")->type_name("PRESET")->capture_default_str();
  step.add_option("--workers", options.workers, "Workers")->capture_default_str();
  step.add_option("--stage", options.zero_stage, "ZeRO stage, 0 to 3")->capture_default_str();
  step.add_option("--precision", options.precision, "Of parameters and activations")
      ->type_name("bf16|fp16|fp32")
      ->capture_default_str();
  step.add_option("--collectives", options.collectives, "Backend of the collectives")
      ->type_name("auto|ucx|nccl")
      ->capture_default_str();
  step.add_option("--context", options.context, "Tokens in a sequence")->capture_default_str();
  step.add_option("--vocab", options.vocab, "Size of the vocabulary; the preset's by default");
  step.add_option("--sequences", options.global_sequences, "Sequences per step, over all workers")
      ->capture_default_str();
  step.add_option("--micro-sequences", options.micro_sequences,
                  "Sequences in one forward pass of a worker; all of the worker's by default");
  step.add_option("--steps", options.steps, "Steps to time, after the warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  step.add_option("--warm-up", options.warm_up, "Warm-up steps, not timed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  step.add_flag("--profile", options.profile, "Also what each op takes, beside its ideal time, rank by rank");
  Repeatable(step.add_option("--set", options.sets, "Replaces one key of the configuration, such as model.layers=4")
                 ->type_name("KEY=VALUE"));
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure this machine: kernels, collectives, a training step, against their ceilings.");
  bench->require_subcommand(1);
  bench->footer("Example:\n  zerofleet bench step --preset gpt2-124m --workers 2");

  CLI::App* gemm = AddBench(*bench, "gemm", "GPT-2's matrix products, against the best product.", Gemm, flags, body);
  AddKernelFlags(*gemm, *flags);
  AddKernelFlags(*AddBench(*bench, "attention", "Causal attention, against the best product.", Attention, flags, body),
                 *flags);
  AddKernelFlags(*AddBench(*bench, "pointwise", "Norms, activations and conversions, against memory bandwidth.",
                           Pointwise, flags, body),
                 *flags);
  CLI::App* optimizer =
      AddBench(*bench, "optimizer", "Every optimizer, against memory bandwidth.", Optimizer, flags, body);
  AddKernelFlags(*optimizer, *flags);
  optimizer->add_option("--parameters", flags->parameters, "Elements to update")
      ->check(CLI::Range(1, 2'000'000'000))
      ->capture_default_str();
  CLI::Option* const offload =
      optimizer->add_flag("--offload", flags->offload,
                          "Instead the update of a model on the host, with the copy of its parameters to the device");
  optimizer->add_option("--preset", flags->step.preset, "With --offload: the model; 16 bytes per parameter are needed")
      ->capture_default_str()
      ->needs(offload);
  optimizer
      ->add_option("--offload-dir", flags->offload_directory,
                   "With the states in a file in this directory, against what the disk reads and writes")
      ->needs(offload);
  CLI::App* collectives =
      AddBench(*bench, "collectives", "Collectives between processes, on this machine or on several hosts.",
               Collectives, flags, body);
  collectives->add_option("--ranks", flags->ranks, "Processes in all")->check(CLI::Range(1, 64))->capture_default_str();
  collectives
      ->add_option("--team", flags->team,
                   "Measure in two levels too: teams of N consecutive ranks, each on a node of its own; the same on "
                   "every host")
      ->check(CLI::Range(2, 64));
  CLI::Option* listen = collectives->add_option(
      "--listen", flags->listen, "Be one of --ranks ranks on several hosts; the others meet it at this HOST:PORT");
  collectives
      ->add_option("--coordinator", flags->rendezvous, "Be a rank of the group that meets there, HOST:PORT of --listen")
      ->excludes(listen);
  collectives->add_option("--interface", flags->interface, "Network interface for collectives, such as eth0");
  collectives->footer(
      "Example:\n  zerofleet bench collectives --ranks 4\n"
      "Example, on two hosts:\n  zerofleet bench collectives --listen 10.0.0.1:7071 --ranks 2\n"
      "  zerofleet bench collectives --coordinator 10.0.0.1:7071");

  AddBench(*bench, "fragmentation",
           "A step's allocations replayed on PyTorch's caching allocator (simulated) and in one arena.", Fragmentation,
           flags, body);

  CLI::App* checkpoint =
      AddBench(*bench, "checkpoint", "Write and read a checkpoint's shard, against the disk.", Checkpoint, flags, body);
  checkpoint->add_option("--dir", flags->directory, "A directory on the disk to measure")
      ->type_name("DIR")
      ->default_str("$TMPDIR, else /tmp");
  checkpoint->add_option("--megabytes", flags->megabytes, "Size of the shard, in units of 1e6 bytes")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();

  AddBench(*bench, "data", "Batches of token files in the order of a run, against plain reads of the files.", Data,
           flags, body)
      ->add_option("--dir", flags->directory, "A directory for 128 MB of files, which are removed")
      ->type_name("DIR")
      ->default_str("$TMPDIR, else /tmp");

  AddCoordinatorFlags(*AddBench(*bench, "coordinator", "Form a fleet, lose members, take heartbeats, over gRPC.",
                                CoordinatorOfMembers, flags, body),
                      flags->coordinator);

  CLI::App* step =
      AddBench(*bench, "step", "A training step of a whole fleet, against its workers' GEMM peak.", Step, flags, body);
  AddDevice(*step, *flags);
  AddStepFlags(*step, flags->step);
}

}  // namespace zerofleet::cli
