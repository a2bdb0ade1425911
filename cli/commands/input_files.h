// The files that a command reads, so that it writes none of them.
#ifndef ZEROFLEET_CLI_COMMANDS_INPUT_FILES_H_
#define ZEROFLEET_CLI_COMMANDS_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct InputFile {
  std::string path;  // a file, or a directory that stands for the files in it
  std::string what;  // "the configuration"
};

// The files that a run reads: its configuration, its data, its tokenizer, and the checkpoint in init_from.
std::vector<InputFile> InputsOfRun(const std::string& config_path, const v1::Config& config);

// InvalidArgument, naming `flag`, if the regular file at `output` is one of `inputs`, by whatever name or link.
absl::Status CheckNoInput(const char* flag, const std::string& output, const std::vector<InputFile>& inputs);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_INPUT_FILES_H_
