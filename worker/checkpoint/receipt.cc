// Chains of digests, and comparing them; see receipt.h.
#include "worker/checkpoint/receipt.h"

#include <bit>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/digest.h"

namespace zerofleet::checkpoint {
namespace {

bool SameNumbers(const v1::StepNumbers& a, const v1::StepNumbers& b) {
  return a.loss_bits() == b.loss_bits() && a.grad_norm_bits() == b.grad_norm_bits();
}

}  // namespace

v1::StepNumbers NumbersOf(int64_t step, double loss, double grad_norm) {
  v1::StepNumbers numbers;
  numbers.set_step(step);
  numbers.set_loss_bits(std::bit_cast<uint64_t>(loss));
  numbers.set_grad_norm_bits(std::bit_cast<uint64_t>(grad_norm));
  return numbers;
}

std::string ChainAfter(std::string_view before, const v1::StepNumbers& step) {
  return Digest128(absl::StrFormat("%s %d %016x %016x", before, step.step(), step.loss_bits(), step.grad_norm_bits()));
}

void AddToReceipt(const v1::StepNumbers& step, v1::Receipt* receipt) {
  receipt->set_chain_xxh3_128(ChainAfter(receipt->chain_xxh3_128(), step));
  *receipt->add_steps() = step;
  const int beyond = receipt->steps_size() - kMostReceiptSteps;
  if (beyond > 0) receipt->mutable_steps()->DeleteSubrange(0, beyond);
}

std::string WhatIsWrongWithReceipt(const v1::Receipt& receipt, int64_t step) {
  if (receipt.steps_size() == 0) return receipt.chain_xxh3_128().empty() ? "" : "has a chain and no steps";
  if (receipt.steps_size() > kMostReceiptSteps) return absl::StrCat("has ", receipt.steps_size(), " steps");
  const int64_t first = step - receipt.steps_size() + 1;
  for (int i = 0; i < receipt.steps_size(); ++i) {
    if (receipt.steps(i).step() == first + i && first >= 1) continue;
    return absl::StrCat("has step ", receipt.steps(i).step(), " as number ", i + 1, " of ", receipt.steps_size(),
                        ", of which the last must be step ", step);
  }
  if (!IsDigest(receipt.chain_xxh3_128())) return "has a chain that is no digest";
  if (!receipt.previous_xxh3_128().empty() && !IsDigest(receipt.previous_xxh3_128())) {
    return "names a manifest before it that is no digest";
  }
  // If the receipt has all steps, the chain can be computed again.
  if (first > 1) return "";
  std::string chain;
  for (const v1::StepNumbers& each : receipt.steps()) chain = ChainAfter(chain, each);
  return chain == receipt.chain_xxh3_128() ? "" : "has steps that do not make its chain";
}

std::string Contradiction(const v1::Receipt& earlier, int64_t earlier_step, const v1::Receipt& later) {
  if (later.steps_size() == 0 || later.steps(0).step() > earlier_step + 1) return "";  // nothing in common
  std::map<int64_t, const v1::StepNumbers*> before;
  for (const v1::StepNumbers& each : earlier.steps()) before[each.step()] = &each;
  std::string chain = earlier.chain_xxh3_128();
  int64_t next = earlier_step + 1;
  for (const v1::StepNumbers& each : later.steps()) {
    const auto same_step = before.find(each.step());
    if (same_step != before.end() && !SameNumbers(*same_step->second, each)) {
      return absl::StrCat("has other numbers for step ", each.step());
    }
    if (each.step() != next) continue;
    chain = ChainAfter(chain, each);
    ++next;
  }
  if (earlier.steps_size() == 0) return "";
  return chain == later.chain_xxh3_128()
             ? ""
             : absl::StrCat("has steps after ", earlier_step, " that do not make its chain");
}

}  // namespace zerofleet::checkpoint
