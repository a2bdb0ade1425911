// The receipt of a run's steps in a manifest: the bits of the loss and norm of the newest steps, and a chain of digests
// over all steps.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_RECEIPT_H_
#define ZEROFLEET_WORKER_CHECKPOINT_RECEIPT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

inline constexpr int kMostReceiptSteps = 256;

v1::StepNumbers NumbersOf(int64_t step, double loss, double grad_norm);

// The chain's digest after a step, from the one before it (empty before the first).
std::string ChainAfter(std::string_view before, const v1::StepNumbers& step);

// Adds the next step; beyond kMostReceiptSteps the oldest is dropped.
void AddToReceipt(const v1::StepNumbers& step, v1::Receipt* receipt);

// What is wrong with the receipt in the manifest of `step`; empty if nothing is, or if there is no receipt.
std::string WhatIsWrongWithReceipt(const v1::Receipt& receipt, int64_t step);

// How the receipt of a run's later checkpoint contradicts the one of its checkpoint of `earlier_step`: a step with
// other numbers, or steps that give another chain. Empty if they agree as far as both are known.
std::string Contradiction(const v1::Receipt& earlier, int64_t earlier_step, const v1::Receipt& later);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_RECEIPT_H_
