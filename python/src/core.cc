// zerofleet._core: the command line in Python's process, and the functions by which the package reads and writes files.
//
// All functions take and return plain values: texts, numbers, addresses. Configurations and manifests are JSON.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/commands/command_line.h"
#include "cli/config/config.h"
#include "cli/launcher/parent_death.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/standard_descriptors.h"
#include "passes.h"
#include "proto/json.h"
#include "services/common/build_info.h"
#include "stop_handlers.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/data/mixture.h"

namespace nb = nanobind;

namespace zerofleet::python {
namespace {

// Whether this process was started with SIGHUP ignored: Python has noted it before any library was loaded.
bool HangupIgnored() {
  const nb::module_ signals = nb::module_::import_("signal");
  return signals.attr("getsignal")(static_cast<int>(SIGHUP)).equal(signals.attr("SIG_IGN"));
}

// Does what the executable's main does (cli/main.cc). `words` is the command that starts another process like this one.
int Main(std::vector<std::string> arguments, std::vector<std::string> words, nb::object passes) {
  cli::SecureStandardDescriptors();
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  cli::DieWithParent();
  const StopHandlers handlers(HangupIgnored());
  arguments.insert(arguments.begin(), "zerofleet");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::unique_ptr<PythonPasses> computed;
  if (!passes.is_none()) computed = std::make_unique<PythonPasses>(std::move(passes));
  cli::Host host{{words.front(), {words.begin() + 1, words.end()}}, computed.get()};
  const nb::gil_scoped_release others;
  return cli::RunCommandLine(static_cast<int>(argv.size()), argv.data(),
                             {std::cout, std::cerr, cli::Terminal::Of(STDOUT_FILENO, getenv),
                              cli::Terminal::Of(STDERR_FILENO, getenv), &host});
}

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  Raise(value.status());
  return *std::move(value);
}

std::vector<cli::ConfigOverride> OverridesOf(const std::vector<std::pair<std::string, std::string>>& given) {
  std::vector<cli::ConfigOverride> overrides;
  for (const auto& [flag, assignment] : given) overrides.push_back({flag, assignment});
  return overrides;
}

// The package counts the dataset. Until it has, the configuration is only read, and will be read again afterwards.
absl::StatusOr<int64_t> LengthOfDataset(const v1::Config& config) {
  return config.data().samples() > 0 ? config.data().samples() : cli::kSamplesToBeCounted;
}

v1::Config ConfigOf(const std::string& json) {
  v1::Config config;
  Raise(JsonToProto(json, &config));
  return config;
}

void ReadWeights(const std::string& step_dir, const std::vector<uintptr_t>& addresses, bool ema) {
  const v1::CheckpointManifest manifest = ValueOf(checkpoint::ReadManifest(step_dir));
  if (std::ssize(addresses) != manifest.tensors_size()) {
    Raise(absl::InternalError("one address for each tensor of the manifest is expected"));
  }
  absl::Status status;
  {
    const nb::gil_scoped_release others;
    const int64_t elements = checkpoint::ManifestElements(manifest);
    int tensor = 0;
    // Pieces arrive file by file; within a file they are in flat order.
    status = checkpoint::LoadWeights(
        step_dir, manifest, {{0, elements, 0}}, ema ? checkpoint::WeightsOf::kAverage : checkpoint::WeightsOf::kStep,
        [&](int64_t offset, std::span<const float> values) {
          while (!values.empty()) {
            while (offset < manifest.tensors(tensor).flat_begin()) --tensor;
            while (offset >= manifest.tensors(tensor).flat_end()) ++tensor;
            const v1::TensorEntry& entry = manifest.tensors(tensor);
            const auto count =
                static_cast<size_t>(std::min<int64_t>(entry.flat_end() - offset, static_cast<int64_t>(values.size())));
            float* const to = reinterpret_cast<float*>(addresses[tensor]) + (offset - entry.flat_begin());
            std::copy(values.begin(), values.begin() + static_cast<ptrdiff_t>(count), to);
            values = values.subspan(count);
            offset += static_cast<int64_t>(count);
          }
          return absl::OkStatus();
        });
  }
  Raise(status);
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The engine of Zerofleet in Python's process; the package zerofleet is what to import.";
  m.def("main", &Main, nb::arg("arguments"), nb::arg("words"), nb::arg("passes").none(),
        "Runs a command line and returns its exit code.");
  m.def(
      "check_free", [](const std::string& dir) { Raise(cli::RunDirectory::Hold(dir).status()); }, nb::arg("dir"),
      "Raises if a run of this machine holds the checkpoint directory; creates it if it is missing.");
  m.def(
      "version", [] { return services::GetBuildInfo().version; }, "The version of the build.");
  m.def(
      "load_config",
      [](const std::string& path, const std::vector<std::pair<std::string, std::string>>& overrides) {
        return DumpJson(ProtoToJson(ValueOf(cli::LoadConfig(path, OverridesOf(overrides), LengthOfDataset))));
      },
      nb::arg("path"), nb::arg("overrides"), "The complete, checked configuration of a file as JSON.");
  m.def(
      "parse_config",
      [](const std::string& text, const std::string& name,
         const std::vector<std::pair<std::string, std::string>>& overrides) {
        return DumpJson(ProtoToJson(ValueOf(cli::ParseConfig(text, name, OverridesOf(overrides), LengthOfDataset))));
      },
      nb::arg("text"), nb::arg("name"), nb::arg("overrides"), "The same of a text, named in messages.");
  m.def(
      "newest_checkpoint",
      [](const std::string& dir) {
        const auto committed = ValueOf(checkpoint::ListCheckpoints(dir));
        return committed.empty() ? std::string() : committed.front().path;
      },
      nb::arg("dir"), "The newest committed step directory in it, or an empty text.");
  m.def(
      "import_weights",
      [](const std::string& folder, const std::string& step_dir, const std::string& config) {
        const checkpoint::ImportStamp stamp = {services::GetBuildInfo().version, absl::ToUnixSeconds(absl::Now())};
        const v1::Config defaults = ConfigOf(config);
        absl::Status status;
        {
          const nb::gil_scoped_release others;
          status = checkpoint::ImportModel(folder, step_dir, defaults, stamp);
        }
        Raise(status);
      },
      nb::arg("folder"), nb::arg("step_dir"), nb::arg("config"),
      "Writes a committed checkpoint at step 0 from the safetensors files in a folder.");
  m.def(
      "sample_order",
      [](uint64_t seed, int64_t samples, int64_t count, int64_t first) {
        const data::Mixture order(seed, std::vector<int64_t>{samples}, std::vector<int64_t>());
        std::vector<int64_t> numbers;
        for (int64_t i = 0; i < count; ++i) numbers.push_back(order.Sample(first + i));
        return numbers;
      },
      nb::arg("seed"), nb::arg("samples"), nb::arg("count"), nb::arg("first") = 0,
      "The samples that a run sees from the position `first` on, in their order.");
  m.def(
      "read_manifest",
      [](const std::string& step_dir) { return DumpJson(ProtoToJson(ValueOf(checkpoint::ReadManifest(step_dir)))); },
      nb::arg("step_dir"), "A checkpoint's manifest as JSON; raises if it is not valid.");
  m.def("read_weights", &ReadWeights, nb::arg("step_dir"), nb::arg("addresses"), nb::arg("ema") = false,
        "Reads fp32 weights to an address for each tensor of the manifest, and checks every byte on the way.");
  nb::class_<Units>(m, "Units", "The units of the pass in progress.")
      .def("acquire", &Units::Acquire, nb::arg("unit"), "The address of the whole unit, in the compute type.")
      .def("release", &Units::Release, nb::arg("unit"))
      .def("gradient", &Units::Gradient, nb::arg("unit"), "Where the unit's gradient is summed, fp32.")
      .def("deliver", &Units::Deliver, nb::arg("unit"))
      .def_prop_ro("stream", &Units::Stream, "The driver's handle of the engine's stream; 0 on the CPU.");
}

}  // namespace zerofleet::python
