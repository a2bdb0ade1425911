// What differs between runs: keys of their configurations, and the first step that has other bits.
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
  std::vector<std::string> values;  // one per run; empty if the run does not have the key
};

// The keys whose values are not the same in all runs, in the order of their names.
std::vector<DifferingKey> DifferingKeys(const std::vector<RunFile>& runs);

struct DifferingStep {
  int64_t step;
  const char* figure;  // "loss"
  double first, other;
};

// The first step that both runs have and in which the bits of loss, gradient norm or learning rate differ.
std::optional<DifferingStep> FirstDifferingStep(const RunFile& first, const RunFile& other);
int64_t CommonSteps(const RunFile& first, const RunFile& other);

// "same bits as a.jsonl in all 300 steps that both have", or from which step on they differ.
std::string BitsText(const RunFile& first, const RunFile& other);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_COMPARE_H_
