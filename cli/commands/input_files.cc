// See input_files.h.
#include "cli/commands/input_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {
namespace {

namespace fs = std::filesystem;

// False also if one of them does not exist.
bool AreTheSame(const fs::path& one, const fs::path& other) {
  std::error_code none;
  return fs::equivalent(one, other, none);
}

bool IsOrHolds(const fs::path& input, const fs::path& output) {
  std::error_code error;
  if (!fs::is_directory(input, error)) return AreTheSame(input, output);
  fs::directory_iterator entry(input, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (AreTheSame(entry->path(), output)) return true;
  }
  return false;
}

}  // namespace

std::vector<InputFile> InputsOfRun(const std::string& config_path, const v1::Config& config) {
  std::vector<InputFile> inputs = {{config_path, "the configuration"}};
  const auto add = [&](const std::string& path, const char* key) {
    if (!path.empty()) inputs.push_back({path, absl::StrCat("read by the run (", key, ")")});
  };
  for (const std::string& path : config.data().train()) add(path, "data.train");
  for (const std::string& path : config.data().validation()) add(path, "data.validation");
  if (config.data().tokenizer() != "bytes") add(config.data().tokenizer(), "data.tokenizer");
  add(config.init_from(), "init_from");
  return inputs;
}

absl::Status CheckNoInput(const char* flag, const std::string& output, const std::vector<InputFile>& inputs) {
  std::error_code none;
  if (!fs::is_regular_file(output, none)) return absl::OkStatus();  // such as a terminal
  for (const InputFile& input : inputs) {
    if (!IsOrHolds(input.path, output)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", output, " is ", input.what, "; name another file"));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
