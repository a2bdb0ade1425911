// A proof is bound to everything in ProofOf and to the key.
#include "worker/collective/peer_proof.h"

#include <gtest/gtest.h>

#include <functional>

namespace zerofleet::collective {
namespace {

ProofOf Call() {
  ProofOf call{.step = GreetingStep::kCall, .generation = 7, .group = "data", .from = 2, .to = 1, .callers = {}};
  call.callers.fill(std::byte{3});
  return call;
}

TEST(PeerProofTest, TheSameIsProvedAlike) { EXPECT_TRUE(SameProof(Prove("key", Call()), Prove("key", Call()))); }

TEST(PeerProofTest, EveryPartOfWhatIsProvedCounts) {
  const std::function<void(ProofOf&)> changes[] = {
      [](ProofOf& what) { what.step = GreetingStep::kAnswer; },
      [](ProofOf& what) { what.generation = uint64_t{1} << 63 | 7; },
      [](ProofOf& what) { what.group = "tensor"; },
      [](ProofOf& what) { what.group = ""; },
      [](ProofOf& what) { what.from = 3; },
      [](ProofOf& what) { what.to = 0; },
      [](ProofOf& what) { what.callers.back() = std::byte{4}; },
      [](ProofOf& what) { what.answerers.back() = std::byte{4}; },
  };
  const Proof proof = Prove("key", Call());
  for (const auto& change : changes) {
    ProofOf other = Call();
    change(other);
    EXPECT_FALSE(SameProof(proof, Prove("key", other))) << &change - changes;
  }
  EXPECT_FALSE(SameProof(proof, Prove("kez", Call())));
  EXPECT_FALSE(SameProof(proof, Prove("", Call())));
}

TEST(PeerProofTest, OneBitInTheLastByteIsSeen) {
  Proof proof = Prove("Jefe", Call());
  proof.back() ^= std::byte{1};
  EXPECT_FALSE(SameProof(proof, Prove("Jefe", Call())));
}

TEST(PeerProofTest, NoncesDiffer) { EXPECT_NE(DrawNonce(), DrawNonce()); }

}  // namespace
}  // namespace zerofleet::collective
