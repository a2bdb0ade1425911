// How a rank proves to another that it belongs to the view: it knows the key that the coordinator gave to that view's
// ranks alone.
//
// Each proof is an HMAC-SHA256 under the key over everything that it is bound to: the message of the greeting,
// generation, group, both ranks, and the nonce that each of them has drawn for this connection. So a proof is worthless
// with another rank, in another generation, or a second time.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_PEER_PROOF_H_
#define ZEROFLEET_WORKER_COLLECTIVE_PEER_PROOF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace zerofleet::collective {

using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

// A new nonce, from the operating system's random numbers.
Nonce DrawNonce();

// The higher of two ranks calls, the lower one answers, and the higher one confirms. kMessages is not sent: its proof
// is the secret that the connection's messages use.
enum class GreetingStep : uint8_t { kCall, kAnswer, kConfirm, kMessages };

// What a proof is bound to.
struct ProofOf {
  GreetingStep step;
  uint64_t generation;
  std::string group;
  int from, to;
  Nonce callers, answerers = {};  // the nonces; in a call only the first is known
};

Proof Prove(const std::string& key, const ProofOf& what);

// Whether the two are equal. Takes the same time wherever they differ.
bool SameProof(const Proof& a, const Proof& b);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_PEER_PROOF_H_
