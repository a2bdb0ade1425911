// Where the ranks of a group without a coordinator meet, for measurements between hosts: one of them serves, all join,
// and each learns its rank and everybody's address. Anybody who reaches the port can join; training does not use it.
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
  std::string host;                     // this rank's host name, for messages
  std::string transport_address;        // sent to the other ranks
  double connect_timeout_seconds = 60;  // for a server that is still starting
  // Called several times a second while connecting and waiting for the others; if it returns true, Join ends with
  // Cancelled.
  std::function<bool()> cancelled = nullptr;
};

class RendezvousClient {
 public:
  // Returns when all ranks have joined. Unavailable, naming the address, if nothing answers in time or the group breaks
  // up; FailedPrecondition if the group is complete already.
  static absl::StatusOr<std::unique_ptr<RendezvousClient>> Join(const RendezvousOptions& options);
  // Leaves the group; without a Done before it, the group ends for every other rank.
  ~RendezvousClient();

  int rank() const;
  const std::vector<std::string>& transport_addresses() const;  // by rank

  // Sets the handler that is called once, from another thread, when a rank has left without Done or the server is gone;
  // if that has happened already, it is called at once. Call OnLost once.
  void OnLost(const std::function<void(absl::Status)>& handler);

  // Says that this rank no longer needs the others. Returns when all ranks have said so, or with the status that
  // OnLost's handler gets.
  absl::Status Done();

 private:
  struct Impl;
  explicit RendezvousClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_RENDEZVOUS_H_
