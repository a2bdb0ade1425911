// From a configuration file and the command line's overrides to a complete and checked v1::Config.
//
// Three steps, one file each: config_text (names and types), config_defaults (what was left out), config_check (which
// values are valid). With init_from the model is read from a checkpoint (initial_model), and what a tokenizer says from
// its file (tokenizer_facts). A key is added by adding a
// field with its row to proto/zerofleet/v1/config.proto, from which all three read (keys.h).
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// "KEY=VALUE", and the flag that gave it.
struct ConfigOverride {
  std::string flag;
  std::string assignment;
};

// How many samples data.train has, of a configuration that is complete but for its steps.
using SampleCounter = std::function<absl::StatusOr<int64_t>(const v1::Config&)>;

// What a counter returns for a configuration that is read again where its samples are known: the steps of any epochs
// are as many as a run may have.
inline constexpr int64_t kSamplesToBeCounted = 1'000'000;

// Parses `text`, named `name` in messages, then applies `overrides` in order. `count` makes steps of epochs, which are
// 0 afterwards; without it epochs are an error. InvalidArgument: one line on the fault. DataLoss: one line on a damaged
// checkpoint that init_from names. Also what `count` returns. Those of `to_choose` that are not given have their
// defaults, and may be changed to what the other keys need (KeysLeftOpen).
absl::StatusOr<v1::Config> ParseConfig(const std::string& text, const std::string& name,
                                       const std::vector<ConfigOverride>& overrides, const SampleCounter& count = {},
                                       const std::vector<std::string>& to_choose = {});

// ParseConfig of the file at `path`. A file that cannot be read is InvalidArgument too: it is a usage error.
absl::StatusOr<v1::Config> LoadConfig(const std::string& path, const std::vector<ConfigOverride>& overrides,
                                      const SampleCounter& count = {}, const std::vector<std::string>& to_choose = {});

// Every key at its default, for a model of this preset and without data: for what needs a configuration but trains
// nothing.
absl::StatusOr<v1::Config> DefaultConfig(const std::string& preset);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_H_
