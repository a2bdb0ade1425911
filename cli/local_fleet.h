// A coordinator and its workers as children of this process.
#ifndef ZEROFLEET_CLI_LOCAL_FLEET_H_
#define ZEROFLEET_CLI_LOCAL_FLEET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/child_process.h"
#include "cli/preflight.h"
#include "cli/run_record.h"
#include "services/operator_client.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

struct LocalFleetOptions {
  v1::Config config;  // complete and checked
  std::string resume = "auto";
  int metrics_port = 0;  // the coordinator's; worker i has metrics_port + 1 + i; 0 = no metrics
};

// The machine's cores, shared out among the workers; at least one.
int ThreadsPerWorker(int workers);

class LocalFleet {
 public:
  // Starts all processes; the coordinator answers when this returns. A child that is not well is found by Reap.
  static absl::StatusOr<std::unique_ptr<LocalFleet>> Start(const LocalFleetOptions& options,
                                                           const RunDirectory& directory);

  OperatorClient& coordinator() { return *client_; }

  // Collects children that have ended. True once all have.
  bool Reap();
  // Whether one has ended in another way than exit code 0.
  bool HasFailure() const;
  void KillAll();

  // Learns from the coordinator which child has which rank, for messages.
  void LearnRanks();

  // What went wrong, from what the children's ends and the run's events say: never OK. What killed a process without a
  // word comes first, since all else follows from it.
  absl::Status Diagnosis(const RunRecord& record, const absl::Status& watch) const;

 private:
  LocalFleet() = default;

  absl::Status StartCoordinator(const LocalFleetOptions& options, const RunDirectory& directory);
  absl::Status StartWorkers(const LocalFleetOptions& options, const RunDirectory& directory);
  absl::Status EarlyEnd(const absl::Status& status);

  std::vector<std::unique_ptr<ChildProcess>> children_;  // the coordinator first
  std::vector<std::string> titles_;                      // of each, with its rank once known
  std::string address_;
  std::unique_ptr<OperatorClient> client_;
};

// `status`'s counterpart for a process that ended with `exit_code`: what it said, under the code that exits the same.
absl::Status StatusOfExit(int exit_code, const std::string& message);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_LOCAL_FLEET_H_
