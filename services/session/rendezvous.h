// Where the ranks of a group without a coordinator meet, for measurements between hosts: one of them serves, all join,
// and each learns its rank and everybody's address. Whoever reaches the port can join: it is no part of training.
#ifndef ZEROFLEET_SERVICES_SESSION_RENDEZVOUS_H_
#define ZEROFLEET_SERVICES_SESSION_RENDEZVOUS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::services {

class RendezvousServer {
 public:
  // Serves one group of `ranks` on `listen`, HOST:PORT. FailedPrecondition naming the address if it cannot listen
  // there.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(const std::string& listen, int ranks);
  ~RendezvousServer();

  int port() const;

 private:
  struct Impl;
  explicit RendezvousServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct RendezvousOptions {
  std::string server;                   // HOST:PORT
  std::string host;                     // this rank's, for messages
  std::string transport_address;        // for the other ranks
  double connect_timeout_seconds = 60;  // for a server that is still starting
  // Asked several times a second while connecting and waiting for the others; true ends that with Cancelled.
  std::function<bool()> cancelled = nullptr;
};

class RendezvousClient {
 public:
  // Returns when all ranks have joined. Unavailable, naming the address, if nothing answers in time or the group breaks
  // up; FailedPrecondition if it is complete without this one.
  static absl::StatusOr<std::unique_ptr<RendezvousClient>> Join(const RendezvousOptions& options);
  // Leaves: without Done before it, every other rank's group ends.
  ~RendezvousClient();

  int rank() const;
  const std::vector<std::string>& transport_addresses() const;  // by rank

  // Called once, from another thread, when a rank has left without Done or the server is gone; also if that has
  // happened before. Set once.
  void OnLost(const std::function<void(absl::Status)>& handler);

  // This rank needs the others no longer; returns when that holds for all, or with what OnLost's handler is told.
  absl::Status Done();

 private:
  struct Impl;
  explicit RendezvousClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_RENDEZVOUS_H_
