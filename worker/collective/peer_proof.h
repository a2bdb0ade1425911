// How a rank shows another that it belongs to the view: it knows the key that the coordinator gave that view's ranks
// alone.
//
// Each proof is an HMAC-SHA256 under the key over everything that it is meant for: which message of the greeting it is,
// generation, group, both ranks, and what each of them has drawn for this connection (its nonce). So none can be shown
// to another rank, in another generation, or again.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_PEER_PROOF_H_
#define ZEROFLEET_WORKER_COLLECTIVE_PEER_PROOF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace zerofleet::collective {

using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

// Never the same twice: from the operating system's random numbers.
Nonce DrawNonce();

// The higher of two ranks calls, the lower one answers, and the higher one confirms. kMessages is no message: what
// it gives is the secret of their connection's messages.
enum class GreetingStep : uint8_t { kCall, kAnswer, kConfirm, kMessages };

// What a proof is bound to.
struct ProofOf {
  GreetingStep step;
  uint64_t generation;
  std::string group;
  int from, to;
  Nonce callers, answerers = {};  // nonces; a call knows only the first
};

Proof Prove(const std::string& key, const ProofOf& what);

// Takes the same time wherever the two differ.
bool SameProof(const Proof& a, const Proof& b);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_PEER_PROOF_H_
