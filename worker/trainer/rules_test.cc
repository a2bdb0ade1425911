// The table's shape; what each rule says is in cli/config/config_test.cc.
#include "worker/trainer/rules.h"

#include <string>

#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

v1::Config Valid() {
  v1::Config config;
  v1::ModelConfig& model = *config.mutable_model();
  model.set_family("gpt2");
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_kv_heads(4);
  model.set_intermediate(256);
  model.set_context(32);
  model.set_vocab(256);
  config.mutable_data()->add_train("text.txt");
  config.mutable_data()->set_tokenizer("bytes");
  config.mutable_parallel()->set_workers(4);
  config.mutable_parallel()->set_tensor(1);
  config.mutable_parallel()->set_zero_stage(2);
  config.mutable_batch()->set_global_sequences(8);
  config.mutable_batch()->set_micro_sequences(2);
  config.mutable_activation()->set_checkpointing("none");
  config.mutable_activation()->set_offload("none");
  config.mutable_offload()->set_optimizer("none");
  config.mutable_offload()->set_parameters("none");
  config.mutable_offload()->set_fraction(1);
  config.mutable_checkpoint()->set_dir("checkpoints");
  return config;
}

TEST(Rules, NameTheKeyThatIsToBeChangedFirst) {
  v1::Config config = Valid();
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
    EXPECT_FALSE(rule.violated(Valid())) << rule.keys.front();
  }
}

}  // namespace
}  // namespace zerofleet::trainer
