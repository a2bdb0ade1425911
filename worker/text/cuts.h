// Where a text can be cut without changing its ids, so that its parts can be encoded in parallel.
#ifndef ZEROFLEET_WORKER_TEXT_CUTS_H_
#define ZEROFLEET_WORKER_TEXT_CUTS_H_

#include "proto/json_parse.h"

namespace zerofleet::text {

// Whether a tokenizer.json's normalizer and pre-tokenizer divide every text between a newline that follows a visible
// ASCII character and an ASCII letter, and treat both sides as they would separately. True for steps that are known to;
// false for all others.
bool CutsBehindNewlines(const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_CUTS_H_
