// Candidates, fewer at each step, then one of them; see sampling.h.
#include "worker/inference/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"

namespace zerofleet::inference {
namespace {

struct Candidate {
  float score;
  int32_t token;
  bool operator<(const Candidate& other) const {  // the likelier first
    return score != other.score ? score > other.score : token < other.token;
  }
};

void Penalise(std::vector<float>& scores, double penalty, std::span<const int32_t> seen) {
  std::vector<bool> done(scores.size());
  for (const int32_t token : seen) {
    if (token < 0 || static_cast<size_t>(token) >= scores.size() || done[token]) continue;
    done[token] = true;
    const double score = scores[token];
    scores[token] = static_cast<float>(score > 0 ? score / penalty : score * penalty);
  }
}

// At most `top_k` candidates (0: all); the likeliest first if any are left out or with `sorted`, otherwise in the order
// of tokens.
std::vector<Candidate> Candidates(const std::vector<float>& scores, int64_t top_k, bool sorted) {
  std::vector<Candidate> all(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) all[i] = {scores[i], static_cast<int32_t>(i)};
  const bool fewer = top_k > 0 && static_cast<size_t>(top_k) < all.size();
  if (fewer) {
    std::nth_element(all.begin(), all.begin() + top_k, all.end());
    all.resize(static_cast<size_t>(top_k));
  }
  if (fewer || sorted) std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

int32_t SampleToken(std::vector<float> scores, const Sampling& sampling, std::span<const int32_t> seen,
                    double uniform) {
  ZF_CHECK(!scores.empty());
  if (sampling.repetition_penalty != 1) Penalise(scores, sampling.repetition_penalty, seen);
  const auto likeliest = std::max_element(scores.begin(), scores.end());
  if (sampling.temperature <= 0) return static_cast<int32_t>(likeliest - scores.begin());
  const float best = *likeliest;
  std::vector<Candidate> candidates = Candidates(scores, sampling.top_k, sampling.top_p < 1);
  std::vector<double> weights(candidates.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = std::exp((candidates[i].score - best) / sampling.temperature);
  }
  if (sampling.top_p < 1) {
    const double enough = sampling.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
    size_t kept = 0;
    for (double sum = 0; kept < weights.size() && (kept == 0 || sum < enough); ++kept) sum += weights[kept];
    weights.resize(kept);
  }
  // The likeliest one's weight is 1.
  for (double& weight : weights) weight = weight < sampling.min_p ? 0 : weight;
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return candidates[last].token;
}

}  // namespace zerofleet::inference
