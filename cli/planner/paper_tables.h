// Tables 1 to 3 of the ZeRO paper, computed: `zerofleet plan --table 1|2|3`.
#ifndef ZEROFLEET_CLI_PLANNER_PAPER_TABLES_H_
#define ZEROFLEET_CLI_PLANNER_PAPER_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/report/terminal.h"
#include "nlohmann/json.hpp"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// Table 1: bytes of model states per device.
struct PaperMemoryCell {
  double parameters;
  int64_t devices;
  int stage;  // 1 to 3
  double bytes;
};
std::vector<PaperMemoryCell> PaperTable1();

// A figure of Table 1 in GB (1e9 bytes) as the paper prints it: from 100 on without its fraction, from 10 on with one
// decimal, below 10 with two; halves are rounded up, and trailing zeros dropped.
std::string PaperGigabytes(double bytes);

// The theoretical half of Table 2: the largest model by model states alone, on devices of 32 GB (32e9 bytes), with 64
// data-parallel ranks for each model-parallel one.
struct PaperLargestCell {
  int model_parallel;
  int64_t devices;
  int stage;
  double parameters;
};
std::vector<PaperLargestCell> PaperTable2();

// Table 3: the configurations C1 to C5 of ZeRO-R with ZeRO-DP, as keys of a configuration.
struct PaperConfiguration {
  const char* name;
  int stage;
  bool partition, offload;  // P_a, and with it on the host
  const char* paper;        // its settings as the paper writes them
  double papers_largest;    // parameters of the largest model in the paper's figure 6; 0: not known here
};
const std::vector<PaperConfiguration>& PaperConfigurations();
void Apply(const PaperConfiguration& configuration, v1::Config& config);

std::string Table1Text(const Terminal& terminal);
std::string Table2Text(const Terminal& terminal);
nlohmann::ordered_json Table1Json();
nlohmann::ordered_json Table2Json();

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PAPER_TABLES_H_
