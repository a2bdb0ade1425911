// Messages among the ranks of a group over UCX: shared memory between processes of a node, TCP or RDMA elsewhere.
//
// Two ranks greet each other first: each proves to the other that it has the view's key (peer_proof.h), and they derive
// secrets for their connection. Every message after that is matched exactly by its tag: source rank (16 bits), secret
// (23), position in the sequence of messages from that source to this rank (24). Both sides count alike because every
// rank runs the same schedule. A message of an older generation, or from a process that has not proved that it is the
// rank it claims to be, matches nothing. The receiver fetches large messages from the sender's memory (rendezvous), so
// no process writes to another's memory.
//
// Only one thread at a time may call its functions, except for Signal.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_UCX_TRANSPORT_H_
#define ZEROFLEET_WORKER_COLLECTIVE_UCX_TRANSPORT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/endpoint.h"
#include "worker/collective/peer_proof.h"

// UCX's handles, so that only .cc files include its headers.
struct ucp_context;
struct ucp_worker;
struct ucp_ep;

namespace zerofleet::collective {

class UcxTransport {
 public:
  // One message in transit. Must be passed to Wait or Close before its buffer is freed.
  struct Request {
    void* handle = nullptr;  // null: complete
    int64_t bytes = 0;
    int peer = 0;
    bool receive = false;
  };
  // Returns OK, or why to stop waiting; called often, so it must be cheap while OK.
  using Interrupt = std::function<absl::Status()>;

  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create();
  // Releases everything without waiting for any peer.
  ~UcxTransport();
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  std::string address() const;  // the UCX worker's address bytes

  struct Place {
    std::string group;
    int rank = 0;
    uint64_t generation = 0;
    PeerTrust trust = {};
  };
  // Takes a place in the group; sends nothing yet. `addresses` are what every rank's address() returned, by rank.
  // InvalidArgument if this rank's entry is not address().
  absl::Status Join(std::vector<std::string> addresses, Place place);
  // Connects to every other rank, each of which must call it too. It is the first call after Join. A process that
  // claims to be a rank but lacks the view's key is refused, and the wait for the real rank continues. Unavailable when
  // no transport reaches a peer, or what `interrupt` returned; the transport is closed then.
  absl::Status Connect(const Interrupt& interrupt);
  bool is_connected() const { return connected_; }

  absl::StatusOr<Request> Send(int peer, const void* data, int64_t bytes);
  absl::StatusOr<Request> Receive(int peer, void* data, int64_t bytes);

  // Returns when all are complete, or with what `interrupt` returned.
  absl::Status Wait(std::span<Request> requests, const Interrupt& interrupt);

  // Makes progress, then sleeps until there is more to do, Signal is called, or `limit` has passed.
  void ProgressAndSleep(absl::Duration limit);
  // Ends a sleep; any thread.
  void Signal();

  // Cancels `requests` and closes the endpoints without involving the peers: afterwards no buffer given to Send or
  // Receive is touched, and nothing can be sent. False when UCX did not finish in time.
  bool Close(std::span<Request> requests = {});
  // Waits up to `limit` until everything sent has left this process.
  void Flush(absl::Duration limit);

 private:
  // A message of the greeting, as it is sent: its sender's nonce and proof.
  struct Greeting {
    Nonce nonce;
    Proof proof;
  };
  // What this rank knows of another.
  struct Peer {
    ucp_ep* endpoint = nullptr;         // null for this rank itself
    Nonce nonce = {};                   // the peer's
    uint32_t sent = 0, received = 0;    // numbers of messages so far
    uint64_t sending = 0, hearing = 0;  // the tags' secrets, for messages to the peer and from it
  };

  UcxTransport() = default;
  absl::Status GreetEveryRank(const Interrupt& interrupt);
  // `status` is a ucs_status_t. The error names the peer as unreachable, unless it was reached and has ended the
  // connection.
  absl::Status PeerError(int status, const char* what, int peer) const;
  absl::Status Greet(int peer, GreetingStep step);
  // Waits for the message of `step` in which the peer proves that it has the key; refuses all others.
  absl::Status Hear(int peer, GreetingStep step, const Interrupt& interrupt);
  Proof ProofFor(GreetingStep step, int from, int to) const;
  void AgreeOnTags(int peer);
  absl::Status CreateEndpoint(int peer);
  absl::StatusOr<Request> SendTagged(int peer, uint64_t tag, const void* data, int64_t bytes);
  absl::StatusOr<Request> ReceiveTagged(int peer, uint64_t tag, void* data, int64_t bytes);
  uint64_t GreetingTag(int source, GreetingStep step) const;
  // Sets *done if the request has ended, and returns how it ended.
  absl::Status Test(Request& request, bool* done);
  bool Sleep(absl::Duration limit);

  ucp_context* context_ = nullptr;
  ucp_worker* worker_ = nullptr;
  int event_descriptor_ = -1;
  bool connected_ = false;
  bool closed_ = true;  // false once Close has failed
  Place place_;
  std::vector<std::string> addresses_;  // by rank
  std::vector<Peer> peers_;             // by rank
  Nonce nonce_ = {};
  std::deque<Greeting> greetings_;  // messages in transit; a deque, since they must not move
  std::vector<Request> greeting_;   // their requests
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_UCX_TRANSPORT_H_
