// HMAC-SHA256 by OpenSSL; see peer_proof.h.
#include "worker/collective/peer_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace zerofleet::collective {
namespace {

// Appends the low `bytes` bytes of `value`, lowest first. Widths are fixed, so that no two descriptions have the same
// bytes.
void Append(uint64_t value, int bytes, std::string* to) {
  for (int i = 0; i < bytes; i++) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void Append(const Nonce& nonce, std::string* to) {
  to->append(reinterpret_cast<const char*>(nonce.data()), nonce.size());
}

}  // namespace

Nonce DrawNonce() {
  Nonce nonce;
  ZF_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size()) == 1);
  return nonce;
}

Proof Prove(const std::string& key, const ProofOf& what) {
  std::string text = "zerofleet peer 1";
  Append(static_cast<uint64_t>(what.step), 1, &text);
  Append(what.generation, 8, &text);
  Append(static_cast<uint64_t>(what.from), 4, &text);
  Append(static_cast<uint64_t>(what.to), 4, &text);
  Append(what.callers, &text);
  Append(what.answerers, &text);
  text += what.group;  // the only part whose length varies
  Proof proof;
  unsigned length = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), reinterpret_cast<unsigned char*>(proof.data()), &length);
  ZF_CHECK(made != nullptr);
  ZF_CHECK(length == proof.size());
  return proof;
}

bool SameProof(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace zerofleet::collective
