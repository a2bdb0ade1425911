// Tokens: the shared secret that a fleet's processes show each other, from a file.
#ifndef ZEROFLEET_SERVICES_SECURITY_TOKEN_H_
#define ZEROFLEET_SERVICES_SECURITY_TOKEN_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace zerofleet::services {

// The token in the file at `path`, which `flag` names: its text without the end of the line. InvalidArgument, naming
// flag and file, for a file that cannot be read, that every user of the machine may read, or whose text is shorter than
// 16 or longer than 4096 characters, or has other characters than printable ASCII without spaces.
absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path);

// A fresh token of 256 random bits, as text.
std::string MakeToken();

// Takes the same time wherever the two differ.
bool SameToken(std::string_view a, std::string_view b);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TOKEN_H_
