// What members must agree on, as rows; each row is a field of a message that every member sends.
#ifndef ZEROFLEET_COORDINATOR_AGREEMENT_H_
#define ZEROFLEET_COORDINATOR_AGREEMENT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {

template <typename Message>
struct Agreement {
  const char* what;
  const char* remedy;
  const std::string& (Message::*value)() const;
};

// FailedPrecondition for the first row in which `message`, which `sender` sent, differs from `first`, naming both.
template <typename Message, size_t kRows>
absl::Status CheckAgreement(const Agreement<Message> (&rows)[kRows], const std::string& first_sender,
                            const Message& first, const std::string& sender, const Message& message) {
  for (const Agreement<Message>& row : rows) {
    const std::string& expected = (first.*row.value)();
    const std::string& got = (message.*row.value)();
    if (expected == got) continue;
    return absl::FailedPreconditionError(absl::StrCat("workers differ in their ", row.what, ": ", first_sender, " has ",
                                                      expected, ", ", sender, " has ", got, "; ", row.remedy));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_AGREEMENT_H_
