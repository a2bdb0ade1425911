// A directory of one's own for as long as a bench runs.
#ifndef ZEROFLEET_CLI_TEMPORARY_DIRECTORY_H_
#define ZEROFLEET_CLI_TEMPORARY_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet {

class TemporaryDirectory {
 public:
  // Under $TMPDIR, or /tmp; ResourceExhausted if it cannot be made.
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create();
  ~TemporaryDirectory();  // removes it with all it holds
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_TEMPORARY_DIRECTORY_H_
