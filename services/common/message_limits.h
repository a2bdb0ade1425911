// What a worker may send: how large each kind of message may be, and what its texts may hold. Peers are not trusted to
// comply: a coordinator checks every message before it acts on it, logs it or keeps it.
#ifndef ZEROFLEET_SERVICES_COMMON_MESSAGE_LIMITS_H_
#define ZEROFLEET_SERVICES_COMMON_MESSAGE_LIMITS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::services {

// The largest message that the coordinator of this run accepts at all: a shard record, which holds the table of tensors
// (about 100 bytes per tensor, a dozen tensors per layer).
int MostMessageBytes(const v1::Config& config);

// InvalidArgument, naming the field and its limit, for a message of `bytes` on the wire that is larger than its kind
// may be, or that has a field beyond its limit. Texts for people (failures, notices) are cut and made printable in
// place.
absl::Status AdmitMessage(size_t bytes, v1::WorkerMessage& message);

// `text` with every byte that is not printable ASCII or valid UTF-8 replaced by "?", cut to `most` bytes with a mark
// that says so.
std::string PrintableText(const std::string& text, size_t most);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_MESSAGE_LIMITS_H_
