// Token files: which are read, and which are refused, naming flag and path.
#include "services/security/token.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TokenFile : public ::testing::Test {
 protected:
  ~TokenFile() override { unlink(path_.c_str()); }

  absl::StatusOr<std::string> Read(const std::string& text, mode_t mode = 0600) {
    EXPECT_TRUE(WriteFileAtomically(path_, text).ok());
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return ReadTokenFile("--token-file", path_);
  }
  std::string Refused(const std::string& text, mode_t mode = 0600) {
    const absl::Status status = Read(text, mode).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--token-file: "), HasSubstr(path_)));
    return std::string(status.message());
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "zerofleet_token_", getpid());
};

TEST_F(TokenFile, IsReadWithoutItsLineEnd) {
  const std::string token = MakeToken();
  EXPECT_EQ(Read(token + "\n").value(), token);
  EXPECT_EQ(Read(token + "\r\n", 0640).value(), token);  // the group may have read access
}

TEST_F(TokenFile, IsRefusedWithAReason) {
  EXPECT_THAT(Refused(MakeToken(), 0644), HasSubstr("mode 0644"));
  EXPECT_THAT(Refused("short\n"), HasSubstr("5 characters; it must have 16 to 4096"));
  EXPECT_THAT(Refused(std::string(15, 'x')), HasSubstr("15 characters"));
  EXPECT_THAT(Refused(""), HasSubstr("0 characters"));
  EXPECT_THAT(Refused("sixteen or more words\n"), HasSubstr("printable ASCII"));
  EXPECT_THAT(Refused(std::string(10'000, 'x')), HasSubstr(path_));
  unlink(path_.c_str());
  const absl::Status missing = ReadTokenFile("--token-file", path_).status();
  EXPECT_THAT(std::string(missing.message()), AllOf(HasSubstr(path_), HasSubstr("No such file")));
}

TEST(Token, IsFreshEveryTime) {
  EXPECT_EQ(MakeToken().size(), 64u);
  EXPECT_NE(MakeToken(), MakeToken());
}

TEST(Token, IsComparedWhole) {
  EXPECT_TRUE(SameToken("abc", "abc"));
  EXPECT_FALSE(SameToken("abc", "abd"));
  EXPECT_FALSE(SameToken("abc", "ab"));
  EXPECT_FALSE(SameToken("", "a"));
}

}  // namespace
}  // namespace zerofleet::services
