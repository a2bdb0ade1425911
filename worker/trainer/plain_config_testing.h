// A small run that no rule objects to, for tests of what depends on several keys.
#ifndef ZEROFLEET_WORKER_TRAINER_PLAIN_CONFIG_TESTING_H_
#define ZEROFLEET_WORKER_TRAINER_PLAIN_CONFIG_TESTING_H_

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

// Stage 2 with four workers, two sequences each, nothing checkpointed and nothing offloaded.
inline v1::Config PlainConfig() {
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
  config.mutable_optimizer()->set_name("adamw");
  config.mutable_schedule()->set_decay("cosine");
  config.mutable_schedule()->set_decay_shape("linear");
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

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PLAIN_CONFIG_TESTING_H_
