// What a process's ops have taken so far, in a file that another process may read while this one runs: `zerofleet bench
// step --profile` reads its workers' files, since workers send nothing when they end.
#ifndef ZEROFLEET_WORKER_DEVICE_PROFILE_OP_PROFILE_H_
#define ZEROFLEET_WORKER_DEVICE_PROFILE_OP_PROFILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/profile/op_sink.h"

namespace zerofleet::device {

// Sums over the calls of one op.
struct OpFigures {
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

class OpProfile : public OpSink {
 public:
  // The environment variable with the folder in which every process writes a file; where it is unset, none does.
  static constexpr char kVariable[] = "ZEROFLEET_OP_PROFILE";

  // Creates the file `path`, or empties it.
  static absl::StatusOr<std::unique_ptr<OpProfile>> Create(const std::string& path);
  ~OpProfile() override;
  OpProfile(const OpProfile&) = delete;

  // One call of an op. Names beyond the 63rd are counted together, under the first of them. Any thread.
  void Add(std::string_view op, const OpCall& call) override;

  // The figures by op name. InvalidArgument for a file that is not a profile.
  static absl::StatusOr<std::map<std::string, OpFigures>> Read(const std::string& path);

 private:
  struct Table;
  explicit OpProfile(Table* table) : table_(table) {}

  absl::Mutex mutex_;
  Table* const table_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_PROFILE_OP_PROFILE_H_
