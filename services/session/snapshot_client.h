// A worker's calls to the services of other workers: sends copies of snapshots, fetches a lost rank's snapshot.
#ifndef ZEROFLEET_SERVICES_SESSION_SNAPSHOT_CLIENT_H_
#define ZEROFLEET_SERVICES_SESSION_SNAPSHOT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "services/security/tls.h"
#include "worker/trainer/snapshot_peers.h"

namespace zerofleet::services {

struct SnapshotClientOptions {
  TlsFiles tls = {};                                                     // this worker's; see WorkerServiceOptions
  std::string token = "";                                                // shown to the other worker; empty: none
  std::function<std::string()> trace_id = [] { return std::string(); };  // as SessionOptions::trace_id
};

class SnapshotClient : public trainer::SnapshotPeers {
 public:
  explicit SnapshotClient(SnapshotClientOptions options);
  ~SnapshotClient() override;

  absl::Status Put(const std::string& address, uint64_t generation, double limit_seconds,
                   trainer::OutgoingSnapshot& snapshot) override;
  absl::Status Get(const std::string& address, uint64_t generation, double limit_seconds,
                   const v1::SnapshotShard& shard, trainer::IncomingSnapshot& snapshot) override;
  void EndViewsBefore(uint64_t generation) override;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SNAPSHOT_CLIENT_H_
