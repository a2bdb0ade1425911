// The profile of a device's ops, as another process reads it.
#include "worker/device/profile/op_profile.h"

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"

namespace zerofleet::device {
namespace {

TEST(OpProfileTest, CountsByName) {
  const std::string path = absl::StrCat(testing::TempDir(), "/op_profile_", getpid());
  auto profile = OpProfile::Create(path).value();
  profile->Add("a", {.began = 7, .seconds = 1, .flops = 2, .bytes = 3});
  profile->Add("b", {.began = 8, .seconds = 1});
  profile->Add("a", {.began = 9, .seconds = 0.5, .flops = 2, .bytes = 3});
  auto figures = OpProfile::Read(path).value();
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures["a"].calls, 2);
  EXPECT_EQ(figures["a"].seconds, 1.5);
  EXPECT_EQ(figures["a"].flops, 4);
  EXPECT_EQ(figures["a"].bytes, 6);
  for (int i = 0; i < 100; ++i) profile->Add(absl::StrCat("op ", i), {.seconds = 1});
  figures = OpProfile::Read(path).value();
  EXPECT_EQ(figures.size(), 64u);
  EXPECT_EQ(figures["op 61"].calls, 39) << "and those for which there is no row";
  ASSERT_TRUE(WriteFileAtomically(path, "something else").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(OpProfile::Read(path).status()));
  unlink(path.c_str());
}

// On the host when the op returns; on a GPU when a later op finds it done.
TEST(OpProfileTest, ADeviceIsProfiledWhereTheEnvironmentSaysSo) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/op_profiles_", getpid());
  for (const std::string& kind : DeviceKindsBuilt()) {
    ASSERT_TRUE(CreateDirectories(folder).ok());
    setenv(OpProfile::kVariable, folder.c_str(), 1);
    auto created = CreateDevice({.kind = kind});
    unsetenv(OpProfile::kVariable);
    if (!created.ok()) continue;  // no GPU
    const std::unique_ptr<Device> device = *std::move(created);
    const auto stream = device->CreateStream().value();
    const auto room = device->Reserve(4 * (6 + 12 + 8)).value();
    float* const x = reinterpret_cast<float*>(room->data());
    device->ops().LinearForward(
        *stream,
        {.m = 2, .n = 4, .k = 3, .x = {x, DType::kF32}, .w = {x + 6, DType::kF32}, .y = {x + 18, DType::kF32}});
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    device->ops().Zero(*stream, x, 4);
    auto figures = OpProfile::Read(absl::StrCat(folder, "/", getpid())).value();
    EXPECT_EQ(figures["LinearForward"].calls, 1) << kind;
    EXPECT_EQ(figures["LinearForward"].flops, 48);
    EXPECT_EQ(figures["LinearForward"].bytes, 4 * (6 + 12 + 8));
    EXPECT_GT(figures["LinearForward"].seconds, 0);
    ASSERT_TRUE(RemoveTree(folder).ok());
  }
}

}  // namespace
}  // namespace zerofleet::device
