// Each key has a row, and the row is complete.
#include "cli/config/keys.h"

#include <set>
#include <string>

#include "coordinator/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/rules.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::FieldDescriptor;

TEST(Keys, AreTheFieldsOfTheMessageInItsOrder) {
  EXPECT_EQ(Keys().front().name, "model.preset");
  EXPECT_EQ(FindKey("offload.delayed_update.after_steps")->path.size(), 3u);
  EXPECT_EQ(FindKey("offload"), nullptr) << "a section holds no value";
  std::set<std::string> names;
  for (const Key& key : Keys()) EXPECT_TRUE(names.insert(key.name).second) << key.name;
}

// A number without bounds or a key without a text is a row that somebody forgot to complete.
TEST(Keys, HaveATextAndTheirBounds) {
  for (const Key& key : Keys()) {
    EXPECT_FALSE(key.row->text().empty()) << key.name;
    for (const FieldDescriptor* field : key.path) EXPECT_FALSE(RowOf(*field).text().empty()) << field->full_name();
    const bool is_integer = key.field().cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
                            key.field().cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    // The range of a list's item depends on its other items.
    const bool bounded = is_integer && !key.field().is_repeated();
    EXPECT_TRUE(!bounded || (key.row->has_smallest() && key.row->has_largest())) << key.name;
    EXPECT_FALSE(!key.row->value().empty() && !key.row->otherwise().empty()) << key.name << " has two defaults";
  }
}

TEST(Keys, AgreeWithTheRegistries) {
  for (const char* name :
       {"parallel.workers", "parallel.tensor", "parallel.team", "restart.min_workers", "restart.spares"})
    EXPECT_EQ(FindKey(name)->row->largest(), coordinator::kMostRanks) << name;
  EXPECT_EQ(FindKey("optimizer.name")->row->value(), optim::Optimizers().front().name);
  for (const optim::OptimizerRow& row : optim::Optimizers()) {
    for (const optim::OptimizerKey& key : row.keys) EXPECT_NE(FindKey(std::string("optimizer.") + key.name), nullptr);
  }
}

TEST(Keys, AreWhatRulesName) {
  for (const trainer::Rule& rule : trainer::Rules()) {
    for (const char* name : rule.keys) EXPECT_TRUE(FindKey(name) != nullptr || std::string(name) == "model") << name;
  }
}

TEST(Keys, ANumberIsWrittenAsPeopleDo) {
  EXPECT_EQ(NumberText(0), "0");
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(16384), "16384");
  EXPECT_EQ(NumberText(1e6), "1e6");
  EXPECT_EQ(NumberText(1e12), "1e12");
  EXPECT_EQ(NumberText(17179869184), "17179869184");
}

}  // namespace
}  // namespace zerofleet::cli
