// Reading, making and comparing tokens; see token.h.
#include "services/security/token.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "openssl/crypto.h"

namespace zerofleet::services {
namespace {

constexpr size_t kShortest = 16, kLongest = 4096;
constexpr size_t kRandomBytes = 32;

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path, " ", what));
  };
  struct stat entry;
  if (stat(path.c_str(), &entry) != 0) return wrong(absl::StrCat("cannot be read: ", std::strerror(errno)));
  if ((entry.st_mode & S_IROTH) != 0) {
    return wrong(absl::StrFormat("can be read by every user of this machine (mode %04o); run chmod 600 on it",
                                 entry.st_mode & 07777));
  }
  absl::StatusOr<std::string> text = ReadSmallFile(path, kLongest + 2);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", std::string(text.status().message())));
  absl::StripTrailingAsciiWhitespace(&*text);
  if (text->size() < kShortest || text->size() > kLongest) {
    return wrong(
        absl::StrCat("has a token of ", text->size(), " characters; it must have ", kShortest, " to ", kLongest));
  }
  const bool printable =
      std::all_of(text->begin(), text->end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (!printable) return wrong("has a token with characters other than printable ASCII without spaces");
  return text;
}

std::string MakeToken() {
  std::string bytes(kRandomBytes, '\0');
  ZF_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return absl::BytesToHexString(bytes);
}

bool SameToken(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace zerofleet::services
