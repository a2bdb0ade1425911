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

// A figure of Table 1, in GB of 1e9 bytes, as the paper prints it: from 100 whole, fractions cut off; below three
// digits, halves rounded up; no zero at its end.
std::string PaperGigabytes(double bytes);

// Table 2, its theoretical half: the largest model by model states alone, on devices of 32 GB (32e9 bytes) that 64
// data-parallel ranks share for each model-parallel one.
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
  const char* paper;        // as the paper writes it
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
