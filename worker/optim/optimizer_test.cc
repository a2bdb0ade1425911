// What every row of the table must fulfil, and what each of the present rows is.
#include "worker/optim/optimizer.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> VectorNames(const OptimizerRow& row) {
  std::vector<std::string> names;
  for (const OptimizerVector& vector : row.vectors) names.push_back(vector.name);
  return names;
}

TEST(Optimizers, EveryRowHoldsTogether) {
  std::set<std::string> names;
  for (const OptimizerRow& row : Optimizers()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_EQ(FindOptimizer(row.name).value(), &row);
    // Evaluation, export and a start from another optimizer's import read the first vector of any file.
    ASSERT_FALSE(row.vectors.empty());
    EXPECT_EQ(std::string(row.vectors[0].name), "master");
    std::set<std::string> vectors;
    int64_t bytes = 0;
    for (const OptimizerVector& vector : row.vectors) {
      EXPECT_TRUE(vectors.insert(vector.name).second) << vector.name;
      EXPECT_EQ(vector.dtype, device::DType::kF32) << vector.name << ": checkpoints store fp32 alone";
      EXPECT_EQ(vector.initial == OptimizerVector::Initial::kWeights, &vector == &row.vectors[0]) << vector.name;
      bytes += device::DTypeBytes(vector.dtype);
    }
    EXPECT_EQ(row.StateBytesPerParameter(), bytes);
    EXPECT_NE(row.update, nullptr);
  }
}

TEST(Optimizers, AnAverageIsOneMoreVector) {
  for (const OptimizerRow& row : Optimizers()) {
    v1::Config config;
    config.mutable_optimizer()->set_name(row.name);
    EXPECT_EQ(OptimizerOf(config).value(), &row);
    EXPECT_FALSE(row.averages());
    config.mutable_ema()->set_decay(0.9);
    const OptimizerRow& averaging = *OptimizerOf(config).value();
    EXPECT_EQ(OptimizerOf(config).value(), &averaging);
    EXPECT_STREQ(averaging.name, row.name);
    EXPECT_TRUE(averaging.averages());
    EXPECT_EQ(averaging.vectors.size(), row.vectors.size() + 1);
    EXPECT_STREQ(averaging.vectors.back().name, "ema");
    EXPECT_EQ(averaging.StateBytesPerParameter(), row.StateBytesPerParameter() + 4);
  }
  EXPECT_FALSE(OptimizerOf(v1::Config()).ok());
}

// A key's functions access one field, which has the key's name; the value of an absent key fits.
TEST(Optimizers, EveryKeyIsAFieldOfTheConfiguration) {
  const google::protobuf::Descriptor& fields = *v1::OptimizerConfig::descriptor();
  std::set<std::string> owned = {"name"};
  for (const OptimizerRow& row : Optimizers()) {
    std::set<std::string> keys;
    for (const OptimizerKey& key : row.keys) {
      SCOPED_TRACE(std::string(row.name) + " " + key.name);
      EXPECT_TRUE(keys.insert(key.name).second);
      EXPECT_TRUE(row.HasKey(key.name));
      const google::protobuf::FieldDescriptor* field = fields.FindFieldByName(key.name);
      ASSERT_NE(field, nullptr);
      v1::OptimizerConfig config;
      (config.*key.set)(0.375);
      EXPECT_EQ(config.GetReflection()->GetDouble(config, field), 0.375);
      EXPECT_EQ((config.*key.get)(), 0.375);
      EXPECT_TRUE(key.fits(key.value_if_absent));
      EXPECT_FALSE(key.fits(-1));
      EXPECT_THAT(key.wanted, HasSubstr("must be"));
    }
    owned.insert(keys.begin(), keys.end());
    EXPECT_FALSE(row.HasKey("name"));
  }
  for (int i = 0; i < fields.field_count(); ++i) EXPECT_TRUE(owned.contains(fields.field(i)->name())) << i;
}

// ZeRO §3.1: K = 12.
TEST(Optimizers, AdamWKeepsTwelveBytes) {
  const OptimizerRow& row = *FindOptimizer("adamw").value();
  EXPECT_EQ(row.StateBytesPerParameter(), 12);
  EXPECT_THAT(VectorNames(row), ElementsAre("master", "exp_avg", "exp_avg_sq"));
  EXPECT_FALSE(row.HasKey("momentum"));
}

TEST(Optimizers, SgdKeepsEightBytes) {
  const OptimizerRow& row = *FindOptimizer("sgd").value();
  EXPECT_EQ(row.StateBytesPerParameter(), 8);
  EXPECT_THAT(VectorNames(row), ElementsAre("master", "momentum_buffer"));
  for (const char* key : {"beta1", "beta2", "epsilon"}) EXPECT_FALSE(row.HasKey(key)) << key;
}

TEST(Optimizers, MuonKeepsWhatAdamWDoes) {
  const OptimizerRow& row = *FindOptimizer("muon").value();
  EXPECT_EQ(VectorNames(row), VectorNames(*FindOptimizer("adamw").value()));
  EXPECT_TRUE(row.whole_matrices);
  EXPECT_TRUE(row.HasKey("momentum"));
}

TEST(Optimizers, AnUnknownNameIsAnsweredWithThoseThereAre) {
  EXPECT_EQ(FindOptimizer("adam\n").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FindOptimizer("adam\n").status().message(),
            "optimizer.name: must be adamw or sgd or muon, got \"adam\\n\"");
  EXPECT_FALSE(FindOptimizer("").ok());
}

}  // namespace
}  // namespace zerofleet::optim
