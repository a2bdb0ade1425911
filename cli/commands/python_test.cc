// A Python that cannot be used is named in the error, with advice.
#include "cli/commands/python.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace zerofleet::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Python, OneWithoutThePackageIsNamed) {
  const std::string python = testing::TempDir() + "/bare-python";
  std::ofstream(python) << "#!/bin/sh\nexit 41\n";
  ASSERT_EQ(chmod(python.c_str(), 0755), 0);
  EXPECT_THAT(std::string(BecomePackage(python, {"config"}).message()),
              AllOf(HasSubstr(python + " has no package zerofleet"), HasSubstr("$ZEROFLEET_PYTHON")));
}

TEST(Python, OneThatIsNotThereIsNamed) {
  EXPECT_THAT(std::string(BecomePackage("/no/python", {"config"}).message()),
              AllOf(HasSubstr("/no/python: No such file"), HasSubstr("--python")));
}

}  // namespace
}  // namespace zerofleet::cli
