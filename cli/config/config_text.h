// Reads YAML text into a v1::Config, strictly, remembering where each key was given.
//
// The reader walks the message's descriptor: the schema in proto/ is the only list of keys, so a key added there is
// read here without a change. It knows names and types; config_check.h checks the values. This is
// the only place that uses yaml-cpp. Every error is InvalidArgument and one line:
//
//   run.yaml:7: model.haeds: unknown key; did you mean model.heads?
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_TEXT_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_TEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// What a run with init_from starts from: a step directory, and the model in it.
struct StoredModel {
  std::string path;
  v1::ModelConfig model;
  std::string tokenizer;  // the value that data.tokenizer gets; empty if the checkpoint carries no tokenizer
};

// A configuration on its way from text to a complete v1::Config.
struct ConfigDraft {
  v1::Config config;
  std::string file;
  std::optional<StoredModel> stored;  // with init_from (initial_model.h)
  int64_t tokenizer_vocab = 256;      // set by FindTokenizer (tokenizer_facts.h); until then that of the byte tokenizer
  std::map<std::string, std::string> given;  // full key path -> where: "run.yaml:7" or "--set"
  std::set<std::string> open;  // keys that are still to be chosen: rules that involve them are not checked

  bool Given(const std::string& key) const { return given.count(key) > 0; }

  // InvalidArgument "<where the key was given, or the file>: <key>: <message>".
  absl::Status Error(const std::string& key, const std::string& message) const;
};

// Reads `yaml` into `draft`; `draft.file` names it in messages.
absl::Status ReadConfigText(const std::string& yaml, ConfigDraft& draft);

// Applies one "KEY=VALUE", KEY a dotted path such as optimizer.learning_rate, on top of `draft`. VALUE is YAML,
// except that a string key takes it literally if it is not in quotes. `flag` ("--set", "--workers") says in messages
// where it was given.
absl::Status ApplyOverride(const std::string& flag, const std::string& assignment, ConfigDraft& draft);

// A complete configuration as the text that a run passes to its processes; parsing it gives the same configuration.
std::string TextOf(const v1::Config& config);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_TEXT_H_
