// The table's shape; what each rule says is in cli/config/config_test.cc.
#include "worker/trainer/rules.h"

#include <string>

#include "gtest/gtest.h"
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

TEST(Rules, HoldForAPlainConfiguration) {
  for (const Rule& rule : Rules()) {
    EXPECT_FALSE(rule.keys.empty());
    EXPECT_FALSE(rule.violated(PlainConfig())) << rule.keys.front();
  }
}

}  // namespace
}  // namespace zerofleet::trainer
