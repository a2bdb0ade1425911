// A small file in memory that a child process inherits, for data that should be neither on disk nor in an argument.
#ifndef ZEROFLEET_CLI_LAUNCHER_INHERITED_FILE_H_
#define ZEROFLEET_CLI_LAUNCHER_INHERITED_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

class InheritedFile {
 public:
  // The path by which a child started with this file opens it.
  static constexpr char kPath[] = "/proc/self/fd/3";
  static constexpr int kChildDescriptor = 3;

  // Readable by this user alone. ResourceExhausted if it cannot be created.
  static absl::StatusOr<std::unique_ptr<InheritedFile>> Create(const std::string& contents);
  ~InheritedFile();
  InheritedFile(const InheritedFile&) = delete;
  InheritedFile& operator=(const InheritedFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  explicit InheritedFile(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_INHERITED_FILE_H_
