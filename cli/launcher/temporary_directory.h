// A private directory that exists while a bench runs.
#ifndef ZEROFLEET_CLI_LAUNCHER_TEMPORARY_DIRECTORY_H_
#define ZEROFLEET_CLI_LAUNCHER_TEMPORARY_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

// $TMPDIR, or /tmp if it is not set.
std::string TemporaryParent();

class TemporaryDirectory {
 public:
  // Under TemporaryParent(); ResourceExhausted, naming it, if it cannot be created.
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create();
  ~TemporaryDirectory();  // removes it with its contents
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_TEMPORARY_DIRECTORY_H_
