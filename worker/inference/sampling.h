// The choice of a token from a model's scores.
#ifndef ZEROFLEET_WORKER_INFERENCE_SAMPLING_H_
#define ZEROFLEET_WORKER_INFERENCE_SAMPLING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace zerofleet::inference {

// Applied in this order; the defaults change nothing.
struct Sampling {
  double repetition_penalty = 1;  // divides the positive scores of tokens that have occurred, multiplies the others
  double temperature = 1;         // divides the scores; 0: the likeliest token is taken
  int64_t top_k = 0;              // samples from this many of the likeliest tokens; 0: from all
  double top_p = 1;               // samples from the fewest likeliest tokens that have this probability together
  double min_p = 0;               // samples from tokens with at least this share of the likeliest one's probability
};

// Returns an index into `scores`, which must not be empty; among equal scores the first. `seen` are the tokens that
// have occurred; `uniform`, in [0, 1), is the random number that chooses.
int32_t SampleToken(std::vector<float> scores, const Sampling& sampling, std::span<const int32_t> seen, double uniform);

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_SAMPLING_H_
