// Every sequence of a batch counts as one rank's, in both orders.
#include "coordinator/batch_shares.h"

#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

TEST(BatchShares, RanksSharesAreTheBatch) {
  v1::Config config;
  config.mutable_batch()->set_micro_sequences(2);
  for (const char* order : {"ranks", "samples"}) {
    config.mutable_reduce()->set_order(order);
    for (const int64_t sequences : {8, 10, 24}) {
      config.mutable_batch()->set_global_sequences(sequences);
      for (int64_t ranks = 1; ranks <= 8; ++ranks) {
        if (!CanShare(config, ranks)) continue;
        int64_t all = 0;
        for (int64_t number = 0; number < ranks; ++number) {
          int64_t leaves = 0;
          for (int64_t round = 0; round < MicroBatchesOf(config, ranks, sequences); ++round) {
            leaves += number < RanksInRound(LeavesOf(config, sequences), ranks, round) ? 1 : 0;
          }
          const int64_t own = SequencesOfRank(config, ranks, number, sequences);
          EXPECT_EQ(own, 2 * leaves) << order << " " << sequences << " " << ranks << " " << number;
          all += own;
        }
        EXPECT_EQ(all, sequences) << order << " " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace zerofleet::coordinator
