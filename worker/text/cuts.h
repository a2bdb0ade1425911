// Where a text can be cut without changing its ids, so that parts of it can be encoded at the same time.
#ifndef ZEROFLEET_WORKER_TEXT_CUTS_H_
#define ZEROFLEET_WORKER_TEXT_CUTS_H_

#include "proto/json_parse.h"

namespace zerofleet::text {

// Whether a tokenizer.json's normalizer and pre-tokenizer divide every text between a newline that follows a visible
// ASCII character and an ASCII letter, and treat both sides as they would alone. The known ones do; false for others.
bool CutsBehindNewlines(const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_CUTS_H_
