// Facts that are the same each time, and differences that are reported.
#include "worker/trainer/environment.h"

#include <memory>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

v1::DataFingerprint Parse(const std::string& text) {
  v1::DataFingerprint data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data)) << text;
  return data;
}

TEST(Environment, OfADeviceIsTheSameWithAnyNumberOfThreads) {
  Environment first;
  for (const int threads : {1, 2, 3}) {
    const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = threads});
    const absl::StatusOr<Environment> environment = ArithmeticOf(*device, device::DType::kBF16);
    ASSERT_TRUE(environment.ok()) << environment.status();
    if (threads == 1) first = *environment;
    EXPECT_EQ(ChangesSince(first, *environment), "");
  }
  std::set<std::string> names;
  for (const v1::Fact& fact : first) names.insert(fact.name());
  EXPECT_THAT(names, testing::UnorderedElementsAre("processor", "instruction set", "oneDNN's instruction set", "oneDNN",
                                                   "C library", "results of a kernel probe in bf16"));
}

TEST(Environment, ProbesTheTypeThatIsComputedIn) {
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  const Environment fp32 = *ArithmeticOf(*device, device::DType::kF32);
  const Environment bf16 = *ArithmeticOf(*device, device::DType::kBF16);
  EXPECT_NE(fp32[fp32.size() - 1].value(), bf16[bf16.size() - 1].value());
  EXPECT_EQ(ChangesSince(fp32, bf16), "");  // the run's precision is its own choice
}

TEST(Environment, HoldsTheDataButNotWhereTheyLie) {
  const Environment here = DataOf(Parse("train { files { path: 'a' bytes: 5 sampled_xxh3_128: 'x' } }"));
  EXPECT_EQ(here.size(), 1);
  EXPECT_THAT(here[0].value(), testing::StartsWith("1 file, 5 bytes, digest "));
  const auto value = [](const std::string& text) { return DataOf(Parse(text))[0].value(); };
  EXPECT_EQ(here[0].value(), value("train { files { path: 'b' bytes: 5 sampled_xxh3_128: 'x' } }"));
  EXPECT_NE(here[0].value(), value("train { files { path: 'a' bytes: 4 sampled_xxh3_128: 'x' } }"));
  EXPECT_NE(here[0].value(), value("train { files { path: 'a' bytes: 5 sampled_xxh3_128: 'y' } }"));
  EXPECT_NE(value("train { files { bytes: 5 sampled_xxh3_128: 'x' } files { bytes: 6 sampled_xxh3_128: 'y' } }"),
            value("train { files { bytes: 6 sampled_xxh3_128: 'y' } files { bytes: 5 sampled_xxh3_128: 'x' } }"));
  EXPECT_NE(value("train { more_files: 1 more_bytes: 5 more_xxh3_128: 'x' }"),
            value("train { more_files: 1 more_bytes: 5 more_xxh3_128: 'y' }"));
  EXPECT_EQ(DataOf(Parse("train { } validation { files { bytes: 5 } }")).size(), 2);
}

TEST(Environment, SaysWhatHasChanged) {
  Environment before, now;
  const auto add = [](Environment& environment, const std::string& name, const std::string& value) {
    v1::Fact& fact = *environment.Add();
    fact.set_name(name);
    fact.set_value(value);
  };
  add(before, "oneDNN", "2.6.0");
  add(before, "C library", "2.36");
  add(now, "oneDNN", "3.1.0");
  add(now, "C library", "2.36");
  add(now, "GPU", "new");
  EXPECT_EQ(ChangesSince(before, now), "oneDNN 3.1.0, was 2.6.0");
  EXPECT_EQ(ChangesSince({}, now), "");
}

}  // namespace
}  // namespace zerofleet::trainer
