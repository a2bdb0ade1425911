// The paper's rows and columns over model_states.h; see paper_tables.h.
#include "cli/planner/paper_tables.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/planner/model_states.h"
#include "cli/report/table.h"

namespace zerofleet::cli {
namespace {

constexpr double kGB = 1e9;
constexpr double kTable1Models[] = {7.5e9, 128e9, 1e12};
constexpr int64_t kTable1Devices[] = {1, 4, 16, 64, 256, 1024};
constexpr int kTable2ModelParallel[] = {1, 2, 4, 8, 16};
constexpr int64_t kTable2DataParallel = 64;
constexpr double kTable2DeviceBytes = 32 * kGB;
constexpr const char* kStageNames[] = {"DP", "P_os", "P_os+g", "P_os+g+p"};
constexpr char kConvention[] =
    "Convention: 2 bytes per parameter, 2 per gradient and 12 of optimizer states (fp32 master and two moments, K = "
    "12); "
    "GB = 1e9 bytes. Model states alone: no activations, buffers or padding.";

std::string Footer(const Terminal& terminal, const std::string& more) {
  return absl::StrCat("\n", WrapText(absl::StrCat(kConvention, more), terminal.text_columns()), "\n");
}

}  // namespace

std::string PaperGigabytes(double bytes) {
  const double value = bytes / kGB;
  if (value >= 100) return absl::StrFormat("%.0f", std::floor(value));
  const double unit = value >= 10 ? 10 : 100;
  return absl::StrFormat("%g", std::floor(value * unit + 0.5) / unit);
}

std::vector<PaperMemoryCell> PaperTable1() {
  std::vector<PaperMemoryCell> cells;
  for (const int64_t devices : kTable1Devices) {
    for (const double parameters : kTable1Models) {
      for (int stage = 1; stage <= 3; ++stage) {
        cells.push_back({parameters, devices, stage, PaperModelStates(stage, parameters, devices).total()});
      }
    }
  }
  return cells;
}

std::vector<PaperLargestCell> PaperTable2() {
  std::vector<PaperLargestCell> cells;
  for (const int parallel : kTable2ModelParallel) {
    for (int stage = 0; stage <= 3; ++stage) {
      // Bytes per parameter; the memory of a device divided by it is the number of parameters that it can hold.
      const double bytes = PaperModelStates(stage, 1, kTable2DataParallel).total();
      cells.push_back({parallel, parallel * kTable2DataParallel, stage, parallel * kTable2DeviceBytes / bytes});
    }
  }
  return cells;
}

const std::vector<PaperConfiguration>& PaperConfigurations() {
  static const std::vector<PaperConfiguration> all = {
      {"C1", 1, false, false, "P_os, C_B, M_D", 40e9},
      {"C2", 1, true, false, "P_os, C_B, M_D, P_a", 60e9},
      {"C3", 2, false, false, "P_os+g, C_B, M_D", 0},
      {"C4", 2, true, false, "P_os+g, C_B, M_D, P_a", 140e9},
      {"C5", 2, true, true, "P_os+g, C_B, M_D, P_a+cpu", 150e9},
  };
  return all;
}

// C_B and M_D need no key: the engine always has buffers per unit and planned arenas.
void Apply(const PaperConfiguration& configuration, v1::Config& config) {
  config.mutable_parallel()->set_zero_stage(configuration.stage);
  v1::ActivationConfig& activation = *config.mutable_activation();
  activation.set_checkpointing("block");
  activation.set_partition(configuration.partition);
  activation.set_offload(configuration.offload ? "cpu" : "none");
}

std::string Table1Text(const Terminal& terminal) {
  std::string text = "ZeRO, table 1: memory of model states per device, GB\n";
  TextTable table({"DP", "7.5B os", "os+g", "os+g+p", "128B os", "os+g", "os+g+p", "1T os", "os+g", "os+g+p"});
  std::vector<std::string> row;
  for (const PaperMemoryCell& cell : PaperTable1()) {
    if (row.empty()) row.push_back(absl::StrCat(cell.devices));
    row.push_back(PaperGigabytes(cell.bytes));
    if (row.size() < 10) continue;
    table.Add(row);
    row.clear();
  }
  return absl::StrCat(
      text, table.Render(2, terminal),
      Footer(terminal, " From 100 GB on fractions are cut off, below they are rounded, as in the paper."));
}

std::string Table2Text(const Terminal& terminal) {
  TextTable table({"MP", "devices", kStageNames[0], kStageNames[1], kStageNames[2], kStageNames[3]});
  std::vector<std::string> row;
  for (const PaperLargestCell& cell : PaperTable2()) {
    if (row.empty()) row = {absl::StrCat(cell.model_parallel), absl::StrCat(cell.devices)};
    row.push_back(HumanCount(cell.parameters));
    if (row.size() < 6) continue;
    table.Add(row);
    row.clear();
  }
  return absl::StrCat("ZeRO, table 2: largest model by model states, parameters\n", table.Render(2, terminal),
                      Footer(terminal, " The paper multiplies its rounded first row by MP: 121.6B for 122.3B."));
}

nlohmann::ordered_json Table1Json() {
  nlohmann::ordered_json document = {{"table", 1}, {"convention", kConvention}};
  auto& rows = document["cells"] = nlohmann::ordered_json::array();
  for (const PaperMemoryCell& cell : PaperTable1()) {
    rows.push_back({{"parameters", cell.parameters},
                    {"devices", cell.devices},
                    {"zero_stage", cell.stage},
                    {"bytes", cell.bytes},
                    {"as_printed_gb", PaperGigabytes(cell.bytes)}});
  }
  return document;
}

nlohmann::ordered_json Table2Json() {
  nlohmann::ordered_json document = {{"table", 2}, {"convention", kConvention}, {"device_bytes", kTable2DeviceBytes}};
  auto& rows = document["cells"] = nlohmann::ordered_json::array();
  for (const PaperLargestCell& cell : PaperTable2()) {
    rows.push_back({{"model_parallel", cell.model_parallel},
                    {"devices", cell.devices},
                    {"zero_stage", cell.stage},
                    {"parameters", cell.parameters}});
  }
  return document;
}

}  // namespace zerofleet::cli
