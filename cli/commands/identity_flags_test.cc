// Tokens and names from flags, and when a coordinator warns.
#include "cli/commands/identity_flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

TEST(IdentityFlags, AnOpenPortBeyondThisMachineIsWarnedOf) {
  EXPECT_THAT(ExposureWarning({"0.0.0.0", 7070}, {}), HasSubstr("0.0.0.0:7070 without --token-file or --tls-ca"));
  EXPECT_THAT(ExposureWarning({"10.0.0.1", 7070}, {}), HasSubstr("whoever reaches this port"));
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) EXPECT_EQ(ExposureWarning({host, 7070}, {}), "");
  services::AccessOptions token, certificates;
  token.worker_token = "t";
  certificates.certificates = true;
  EXPECT_EQ(ExposureWarning({"0.0.0.0", 7070}, token), "");
  EXPECT_EQ(ExposureWarning({"0.0.0.0", 7070}, certificates), "");
}

TEST(IdentityFlags, TokensAreReadAndMustGoTogether) {
  const std::string path = absl::StrCat(::testing::TempDir(), "zerofleet_identity_", getpid());
  ASSERT_TRUE(WriteFileAtomically(path, "a-token-of-some-length\n").ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  AccessFlags flags;
  EXPECT_TRUE(services::AccessControl(ReadAccess(flags, {}).value()).open());
  flags.operator_token_file = path;
  EXPECT_THAT(std::string(ReadAccess(flags, {}).status().message()),
              HasSubstr("--operator-token-file: needs --token-file"));
  flags.token_file = path;
  EXPECT_EQ(ReadAccess(flags, {}).value().worker_token, "a-token-of-some-length");
  services::TlsFiles tls;
  tls.ca = "ca.pem";
  EXPECT_TRUE(ReadAccess({}, tls).value().certificates);
  EXPECT_EQ(ReadToken("").value(), "");
  EXPECT_EQ(ReadToken(path).value(), "a-token-of-some-length");
  ASSERT_EQ(chmod(path.c_str(), 0604), 0);
  EXPECT_THAT(std::string(ReadToken(path).status().message()), HasSubstr("--token-file: "));
  unlink(path.c_str());
}

}  // namespace
}  // namespace zerofleet::cli
