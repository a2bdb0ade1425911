// Small configurations for tests.
#ifndef ZEROFLEET_WORKER_MODEL_MODEL_TESTING_H_
#define ZEROFLEET_WORKER_MODEL_MODEL_TESTING_H_

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

inline v1::ModelConfig TestModelConfig(int64_t layers, int64_t hidden, int64_t heads, int64_t context, int64_t vocab) {
  v1::ModelConfig config;
  config.set_family("gpt2");
  config.set_layers(layers);
  config.set_hidden(hidden);
  config.set_heads(heads);
  config.set_kv_heads(heads);
  config.set_intermediate(4 * hidden);
  config.set_context(context);
  config.set_vocab(vocab);
  return config;
}

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_MODEL_TESTING_H_
