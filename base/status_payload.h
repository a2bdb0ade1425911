// A message that a status carries, next to its text for people, to whoever handles it.
#ifndef ZEROFLEET_BASE_STATUS_PAYLOAD_H_
#define ZEROFLEET_BASE_STATUS_PAYLOAD_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace zerofleet {

// `Message` is a protobuf message; its full name is the payload's type URL.
template <typename Message>
absl::Status WithPayload(absl::Status status, const Message& message) {
  status.SetPayload(message.GetTypeName(), absl::Cord(message.SerializeAsString()));
  return status;
}

template <typename Message>
std::optional<Message> PayloadOf(const absl::Status& status) {
  Message message;
  const absl::optional<absl::Cord> payload = status.GetPayload(message.GetTypeName());
  if (!payload || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_STATUS_PAYLOAD_H_
