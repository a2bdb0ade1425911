// The table's shape; what each rule says is in cli/config/config_test.cc.
#include "worker/trainer/rules.h"

#include <string>

#include "gtest/gtest.h"
#include "worker/model/foreign_testing.h"
#include "worker/trainer/plain_config_testing.h"

namespace zerofleet::trainer {
namespace {

TEST(Rules, NameTheKeyThatIsToBeChangedFirst) {
  v1::Config config = PlainConfig();
  ASSERT_EQ(FirstViolated(config), nullptr) << FirstViolated(config)->message(config);
  config.mutable_offload()->set_speculative(true);
  const Rule* rule = FirstViolated(config);
  ASSERT_NE(rule, nullptr);
  EXPECT_STREQ(rule->keys.front(), "offload.speculative");
  EXPECT_EQ(rule->message(config), "true needs offload.optimizer: cpu, got none");
  config.mutable_offload()->set_optimizer("cpu");
  EXPECT_EQ(FirstViolated(config), nullptr);
}

// The trainer refuses them once it knows the device; a plan and the advice on memory must not wait for that.
TEST(Rules, RefuseOnCudaWhatItCannotDo) {
  v1::Config plain = PlainConfig();
  plain.set_device("cuda");
  plain.mutable_parallel()->set_zero_stage(3);
  plain.mutable_offload()->set_optimizer("cpu");
  ASSERT_EQ(FirstViolated(plain), nullptr);
  const auto said = [](const v1::Config& config) {
    const Rule* const rule = FirstViolated(config);
    return rule == nullptr ? "" : rule->keys.front() + (": " + rule->message(config));
  };
  v1::Config config = plain;
  config.mutable_offload()->set_parameters("cpu");
  config.mutable_offload()->set_optimizer("nvme");
  config.mutable_offload()->set_dir("/scratch");
  config.mutable_parallel()->set_workers(2);
  config.mutable_batch()->set_global_sequences(2 * config.batch().global_sequences());
  config.mutable_integrity()->set_replay_every_steps(2);
  EXPECT_EQ(said(config), "");
  config.mutable_offload()->set_parameters("none");
  config.mutable_parallel()->set_zero_stage(2);
  config.mutable_integrity()->set_every_steps(2);
  EXPECT_EQ(said(config), "");
  config = plain;
  config.mutable_optimizer()->set_name("muon");
  EXPECT_EQ(said(config), "");
  config.mutable_offload()->set_fraction(0.5);
  EXPECT_EQ(said(config), "offload.fraction: must be 1 with muon on device cuda, got 0.5");
  config = plain;
  config.mutable_offload()->set_speculative(true);
  config.mutable_histograms()->set_every_steps(2);
  EXPECT_EQ(said(config), "");
}

TEST(Rules, RefuseLateUpdatesWherePassesChangeBuffers) {
  v1::Config config = PlainConfig();
  config.mutable_parallel()->set_zero_stage(2);
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_offload()->mutable_delayed_update()->set_after_steps(1);
  *config.mutable_model() = model::ForeignConfig();
  config.set_init_from("start");
  config.mutable_data()->Clear();
  ASSERT_EQ(FirstViolated(config), nullptr) << FirstViolated(config)->message(config);
  *config.mutable_model() = model::BufferedForeignConfig();
  const Rule* const rule = FirstViolated(config);
  ASSERT_NE(rule, nullptr);
  EXPECT_STREQ(rule->keys.front(), "offload.delayed_update.after_steps");
  EXPECT_EQ(rule->message(config), "must be 0 where passes change buffers, which the next step's passes begin with");
}

// Muon's beta1 is that of the few tensors that AdamW updates, and SGD has none.
TEST(Rules, LookingAheadAsksForTheMomentumOfAdamWAlone) {
  v1::Config config = PlainConfig();
  config.mutable_parallel()->set_zero_stage(2);
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_offload()->mutable_delayed_update()->set_after_steps(1);
  config.mutable_offload()->mutable_delayed_update()->set_lookahead(true);
  config.mutable_optimizer()->set_name("adamw");
  config.mutable_optimizer()->set_beta1(0.5);
  const Rule* const rule = FirstViolated(config);
  ASSERT_NE(rule, nullptr);
  EXPECT_STREQ(rule->keys.front(), "offload.delayed_update.lookahead");
  EXPECT_EQ(rule->message(config),
            "must be false with optimizer.beta1 below 0.8, got 0.5: so little of a step is momentum that looking ahead "
            "gains nothing");
  for (const char* const other : {"sgd", "muon"}) {
    config.mutable_optimizer()->set_name(other);
    EXPECT_EQ(FirstViolated(config), nullptr) << other;
  }
}

TEST(Rules, HoldForAPlainConfiguration) {
  for (const Rule& rule : Rules()) {
    EXPECT_FALSE(rule.keys.empty());
    EXPECT_FALSE(rule.violated(PlainConfig())) << rule.keys.front();
  }
}

}  // namespace
}  // namespace zerofleet::trainer
