// From a configuration file and the command line's overrides to a complete and checked v1::Config.
//
// Three steps, one file each: config_text (names and types), config_defaults (what was left out), config_check (which
// values are valid). With init_from the model is read from a checkpoint (initial_model); the vocabulary size and the
// digest come from the tokenizer's file (tokenizer_facts). To add a key, add a field with its row to
// proto/zerofleet/v1/config.proto, which all three steps read (keys.h).
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// An assignment "KEY=VALUE" and the flag that gave it, such as "--set".
struct ConfigOverride {
  std::string flag;
  std::string assignment;
};

// Returns the number of samples in data.train. The configuration is complete except for its steps.
using SampleCounter = std::function<absl::StatusOr<int64_t>(const v1::Config&)>;

// What a SampleCounter may return where the configuration is only read, and read again later with its real number of
// samples: any number of epochs then gives a number of steps that the check accepts.
inline constexpr int64_t kSamplesToBeCounted = 1'000'000;

// Parses `text`, named `name` in messages, then applies `overrides` in order. `count` converts `epochs` to `steps`,
// after which `epochs` is 0; without it `epochs` is an error. InvalidArgument: one line on the fault. DataLoss: one
// line on a damaged checkpoint that init_from names. Errors of `count` are passed on. The keys in `to_choose` that are
// not given keep their defaults, and rules that involve them are not checked: the caller still chooses their values
// (KeysLeftOpen).
absl::StatusOr<v1::Config> ParseConfig(const std::string& text, const std::string& name,
                                       const std::vector<ConfigOverride>& overrides, const SampleCounter& count = {},
                                       const std::vector<std::string>& to_choose = {});

// Calls ParseConfig on the file at `path`. A file that cannot be read is InvalidArgument too: it is a usage error.
absl::StatusOr<v1::Config> LoadConfig(const std::string& path, const std::vector<ConfigOverride>& overrides,
                                      const SampleCounter& count = {}, const std::vector<std::string>& to_choose = {});

// The configuration of a model of this preset, every other key at its default and without data, for callers that need a
// configuration but train nothing.
absl::StatusOr<v1::Config> DefaultConfig(const std::string& preset);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_H_
