// What differs between runs: keys of their configurations, and the first step whose bits do.
#ifndef ZEROFLEET_CLI_REPORT_RUN_COMPARE_H_
#define ZEROFLEET_CLI_REPORT_RUN_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/run_file.h"

namespace zerofleet::cli {

struct DifferingKey {
  std::string key;                  // "optimizer.learning_rate"
  std::vector<std::string> values;  // of each run; empty where it has none
};

// In the order of the keys.
std::vector<DifferingKey> DifferingKeys(const std::vector<RunFile>& runs);

struct DifferingStep {
  int64_t step;
  const char* figure;  // "loss"
  double first, other;
};

// The first step that both runs have and whose loss, gradient norm or learning rate has other bits.
std::optional<DifferingStep> FirstDifferingStep(const RunFile& first, const RunFile& other);
int64_t CommonSteps(const RunFile& first, const RunFile& other);

// "same bits as a.jsonl in all 300 steps that both have", or from which step on they differ.
std::string BitsText(const RunFile& first, const RunFile& other);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_COMPARE_H_
