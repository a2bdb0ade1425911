// The reflective reader: what it accepts, and the line it answers to what it does not.
#include "cli/config_text.h"

#include <string>

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

absl::Status Read(const std::string& yaml, ConfigDraft& draft) {
  draft.file = "run.yaml";
  return ReadConfigText(yaml, draft);
}

TEST(ConfigText, ReadsEveryShape) {
  ConfigDraft draft;
  ASSERT_TRUE(Read("model: {layers: 2}\n"
                   "data:\n"
                   "  train: [a.txt, \"b c.txt\"]\n"
                   "optimizer:\n"
                   "  learning_rate: 3.0e-4\n"
                   "parallel: {zero_stage: 3}\n"
                   "precision: fp32\n"
                   "seed: 18446744073709551615\n",
                   draft)
                  .ok());
  EXPECT_EQ(draft.config.model().layers(), 2);
  ASSERT_EQ(draft.config.data().train_size(), 2);
  EXPECT_EQ(draft.config.data().train(1), "b c.txt");
  EXPECT_EQ(draft.config.optimizer().learning_rate(), 3.0e-4);
  EXPECT_EQ(draft.config.parallel().zero_stage(), 3);
  EXPECT_EQ(draft.config.precision(), "fp32");
  EXPECT_EQ(draft.config.seed(), 18446744073709551615u);
  EXPECT_EQ(draft.given.at("optimizer.learning_rate"), "run.yaml:5");
  EXPECT_FALSE(draft.Given("optimizer.beta1"));
}

TEST(ConfigText, ReadsNothingAndJson) {
  ConfigDraft empty, json;
  EXPECT_TRUE(Read("# only a comment\n", empty).ok());
  EXPECT_TRUE(empty.given.empty());
  EXPECT_TRUE(Read("{\"steps\": 5, \"data\": {\"train\": [\"a\"]}}", json).ok());
  EXPECT_EQ(json.config.steps(), 5);
}

struct BadText {
  const char* yaml;
  const char* message;
};

TEST(ConfigText, AnswersBadTextWithOneLine) {
  const BadText cases[] = {
      {"modle: {layers: 2}", "run.yaml:1: modle: unknown key; the nearest valid name is model"},
      {"model:\n  layers: 2\n  haeds: 4",
       "run.yaml:3: model.haeds: unknown key; the nearest valid name is model.heads"},
      {"steps: 1\nlearning_rate: 1",
       "run.yaml:2: learning_rate: unknown key; the nearest valid name is optimizer.learning_rate"},
      {"steps: 1\nsteps: 2", "run.yaml:2: steps: given twice; the first is at run.yaml:1"},
      {"model: {layers: 1}\nmodel: {heads: 1}", "run.yaml:2: model: given twice; the first is at run.yaml:1"},
      {"steps: ten", "run.yaml:1: steps: wants an integer, not \"ten\""},
      {"steps: 1.5", "run.yaml:1: steps: wants an integer, not \"1.5\""},
      {"steps: 1e3", "run.yaml:1: steps: wants an integer, not \"1e3\""},
      {"steps: \"10\"", "run.yaml:1: steps: wants an integer, not the text \"10\""},
      {"steps: 99999999999999999999", "run.yaml:1: steps: 99999999999999999999 is out of range"},
      {"parallel: {workers: 2147483648}", "run.yaml:1: parallel.workers: 2147483648 is out of range"},
      {"seed: -1", "run.yaml:1: seed: wants an integer of 0 or more, not \"-1\""},
      {"steps:", "run.yaml:1: steps: wants an integer, not nothing"},
      {"steps: [1]", "run.yaml:1: steps: wants an integer, not a list"},
      {"steps: {a: 1}", "run.yaml:1: steps: wants an integer, not a section of keys"},
      {"model: 7", "run.yaml:1: model: wants a section of keys, not \"7\""},
      {"model:", "run.yaml:1: model: wants a section of keys, not nothing"},
      {"optimizer: {beta1: .nan}", "run.yaml:1: optimizer.beta1: wants a number, not \".nan\""},
      {"optimizer: {beta1: nan}", "run.yaml:1: optimizer.beta1: wants a number, not \"nan\""},
      {"optimizer: {beta1: 1e999}", "run.yaml:1: optimizer.beta1: 1e999 is out of range"},
      {"data: {train: a.txt}",
       "run.yaml:1: data.train: wants a list of texts, as in [one.txt, two.txt], not \"a.txt\""},
      {"data:\n  train:\n    - a\n    - [b]", "run.yaml:4: data.train[1]: wants a text, not a list"},
      {"precision: \"a\\nb\"", "run.yaml:1: precision: wants one line of UTF-8 text, not \"a\\nb\""},
      {"precision: \"\xff\"", "run.yaml:1: precision: wants one line of UTF-8 text, not \"\\xff\""},
      {"? [a]\n: 1", "run.yaml:1: a key is a word, not a list"},
      {"- a", "run.yaml:1: wants keys such as \"model:\", not a list"},
      {"steps: 1\n---\nsteps: 2", "run.yaml:3: a second YAML document; a configuration is one"},
      {"a: b: c", "run.yaml:1: not valid YAML: illegal map value"},
      {"steps: [1", "run.yaml:1: not valid YAML: end of sequence flow not found"},
  };
  for (const BadText& bad : cases) {
    ConfigDraft draft;
    const absl::Status status = Read(bad.yaml, draft);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.yaml;
    EXPECT_EQ(std::string(status.message()), bad.message) << bad.yaml;
  }
}

TEST(ConfigText, RefusesDeepNesting) {
  ConfigDraft draft;
  EXPECT_EQ(Read(std::string(100'000, '['), draft).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConfigText, OverridesReplaceWhatTheFileGave) {
  ConfigDraft draft;
  ASSERT_TRUE(Read("steps: 1\ndata: {train: [a, b]}", draft).ok());
  EXPECT_TRUE(ApplyOverride("--set", "steps=7", draft).ok());
  EXPECT_TRUE(ApplyOverride("--set", "steps=8", draft).ok());
  EXPECT_TRUE(ApplyOverride("--set", "data.train=[c]", draft).ok());
  EXPECT_TRUE(ApplyOverride("--set", "checkpoint.dir=#x: [y", draft).ok());
  EXPECT_EQ(draft.config.steps(), 8);
  ASSERT_EQ(draft.config.data().train_size(), 1);
  EXPECT_EQ(draft.config.data().train(0), "c");
  EXPECT_EQ(draft.config.checkpoint().dir(), "#x: [y");
  EXPECT_EQ(draft.given.at("steps"), "--set");
}

TEST(ConfigText, AnswersBadOverridesWithOneLine) {
  const BadText cases[] = {
      {"steps", "--set: wants KEY=VALUE, not \"steps\""},
      {"=1", "--set: wants KEY=VALUE, not \"=1\""},
      {"step=1", "--set: step: unknown key; the nearest valid name is steps"},
      {"optimizer.lr=1", "--set: optimizer.lr: unknown key; the nearest valid name is optimizer.name"},
      {"steps.x=1", "--set: steps: has no keys below it"},
      {"model={layers: 1}", "--set: model: is a section; set one of its keys, such as model.preset"},
      {"steps=x", "--set: steps: wants an integer, not \"x\""},
      {"steps=", "--set: steps: wants an integer, not nothing"},
      {"data.train=[", "--set: data.train: not valid YAML: end of sequence flow not found"},
  };
  for (const BadText& bad : cases) {
    ConfigDraft draft;
    EXPECT_EQ(std::string(ApplyOverride("--set", bad.yaml, draft).message()), bad.message) << bad.yaml;
  }
}

}  // namespace
}  // namespace zerofleet
