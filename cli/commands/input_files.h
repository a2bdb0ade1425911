// The files that a command reads, which no file that it writes may be.
#ifndef ZEROFLEET_CLI_COMMANDS_INPUT_FILES_H_
#define ZEROFLEET_CLI_COMMANDS_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct InputFile {
  std::string path;  // of a directory: the files in it
  std::string what;  // "the configuration"
};

// What a run reads: its configuration, data, tokenizer, and what it begins with.
std::vector<InputFile> InputsOfRun(const std::string& config_path, const v1::Config& config);

// InvalidArgument, naming `flag`, if the regular file at `output` is one of `inputs`, by whatever name or link.
absl::Status CheckNoInput(const char* flag, const std::string& output, const std::vector<InputFile>& inputs);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_INPUT_FILES_H_
