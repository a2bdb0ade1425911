// The reflective reader: what it accepts, and its message for what it does not.
#include "cli/config/config_text.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/config/key_words.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"

namespace zerofleet::cli {
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

TEST(ConfigText, ReadsCheckpointingAsAWordOrASection) {
  for (const auto& [yaml, wanted] : {std::pair{"activation: {checkpointing: block}", "block"},
                                     {"activation: {checkpointing: {every: 4}}", "{every: 4}"},
                                     {"activation:\n  checkpointing:\n    every: 4", "{every: 4}"},
                                     {"{\"activation\": {\"checkpointing\": \"{every: 4}\"}}", "{every: 4}"}}) {
    ConfigDraft draft;
    ASSERT_TRUE(Read(yaml, draft).ok()) << yaml;
    EXPECT_EQ(draft.config.activation().checkpointing(), wanted) << yaml;
  }
}

TEST(ConfigText, ReadsAMixtureAndNamedSets) {
  ConfigDraft draft;
  ASSERT_TRUE(Read("data:\n"
                   "  train: [{path: a, weight: 0.7}, {weight: 0.3, path: b}]\n"
                   "  validation: {wiki: [c, d], code: e}\n",
                   draft)
                  .ok());
  const auto lists = [&draft] {
    const v1::DataConfig& data = draft.config.data();
    return absl::StrCat(absl::StrJoin(data.train(), " "), "|", absl::StrJoin(data.train_weights(), " "), "|",
                        absl::StrJoin(data.validation(), " "), "|", absl::StrJoin(data.validation_sets(), " "));
  };
  EXPECT_EQ(lists(), "a b|7 3|c d e|wiki wiki code");
  // In the form that the processes of a run receive.
  const std::string complete = absl::StrCat("{\"data\": ", DumpJson(ProtoToJson(draft.config.data())), "}");
  draft = {};
  ASSERT_TRUE(Read(complete, draft).ok());
  EXPECT_EQ(lists(), "a b|7 3|c d e|wiki wiki code");
  // A list that is replaced loses its weights or names too.
  ASSERT_TRUE(ApplyOverride("--set", "data.validation=[v]", draft).ok());
  EXPECT_EQ(lists(), "a b|7 3|v|");
  ASSERT_TRUE(ApplyOverride("--set", "data.train=[c, d]", draft).ok());
  EXPECT_EQ(lists(), "c d||v|");
  ASSERT_TRUE(ApplyOverride("--set", "data.train=[{path: c, weight: 1}, {path: d, weight: 2}]", draft).ok());
  EXPECT_EQ(lists(), "c d|1 2|v|");
  ASSERT_TRUE(ApplyOverride("--set", "data.train_weights=[4, 5]", draft).ok());
  EXPECT_EQ(lists(), "c d|4 5|v|");
}

TEST(ConfigText, NamesWhatIsWrongWithAMixture) {
  for (const auto& [value, wanted] : {
           std::pair{"train: [{path: a, weight: 7}, b]", "data.train[1]: must be {path: P, weight: W}"},
           {"train: [{path: a}]", "data.train[0]: must be {path: P, weight: W}"},
           {"train: [{path: a, weight: 7, epochs: 1}]", "data.train[0]: must be {path: P, weight: W}"},
           {"train: [{path: [a], weight: 7}]", "data.train[0]: path must be a string, got a list"},
           {"train: [{path: a, weight: -7}]", "data.train: a weight must be a number above 0"},
           {"train: {path: a, weight: 7}", "data.train: must be a list of strings"},
           {"train_weights: [a]", "data.train_weights[0]: must be an integer, got \"a\""},
           {"train_weights: 7", "data.train_weights: must be a list of integers, such as [7, 3], got \"7\""},
           {"validation: {wiki: {a: b}}", "data.validation.wiki: must be a path or a list, got a section"},
           {"validation: {wiki: a, code: b, wiki: c}", "data.validation.wiki: is given twice"},
           {"validation: {wiki: []}", "data.validation.wiki: must name at least one file"},
           {"validation: a", "or one for each name, such as {wiki: [one.txt]}, got \"a\""},
       }) {
    ConfigDraft draft;
    const absl::Status status = Read(absl::StrCat("data: {", value, "}"), draft);
    EXPECT_THAT(status.message(), testing::HasSubstr(wanted)) << value;
  }
}

struct BadText {
  const char* yaml;
  const char* message;
};

TEST(ConfigText, AnswersBadTextWithOneLine) {
  const BadText cases[] = {
      {"activation: {checkpointing: {each: 4}}",
       "run.yaml:1: activation.checkpointing: must be none, block, selective or {every: n}, got another section of "
       "keys"},
      {"modle: {layers: 2}", "run.yaml:1: modle: unknown key; did you mean model?"},
      {"model:\n  layers: 2\n  haeds: 4", "run.yaml:3: model.haeds: unknown key; did you mean model.heads?"},
      {"steps: 1\nlearning_rate: 1", "run.yaml:2: learning_rate: unknown key; did you mean optimizer.learning_rate?"},
      {"steps: 1\nsteps: 2", "run.yaml:2: steps: is duplicated; first given at run.yaml:1"},
      {"model: {layers: 1}\nmodel: {heads: 1}", "run.yaml:2: model: is duplicated; first given at run.yaml:1"},
      {"steps: ten", "run.yaml:1: steps: must be an integer, got \"ten\""},
      {"steps: 1.5", "run.yaml:1: steps: must be an integer, got \"1.5\""},
      {"steps: 1e3", "run.yaml:1: steps: must be an integer, got \"1e3\""},
      {"steps: \"10\"", "run.yaml:1: steps: must be an integer, got the string \"10\""},
      {"steps: 99999999999999999999", "run.yaml:1: steps: 99999999999999999999 is out of range"},
      {"parallel: {workers: 2147483648}", "run.yaml:1: parallel.workers: 2147483648 is out of range"},
      {"seed: -1", "run.yaml:1: seed: must be an integer >= 0, got \"-1\""},
      {"steps:", "run.yaml:1: steps: must be an integer, got nothing"},
      {"steps: [1]", "run.yaml:1: steps: must be an integer, got a list"},
      {"steps: {a: 1}", "run.yaml:1: steps: must be an integer, got a section of keys"},
      {"model: 7", "run.yaml:1: model: must be a section of keys, got \"7\""},
      {"model:", "run.yaml:1: model: must be a section of keys, got nothing"},
      {"optimizer: {beta1: .nan}", "run.yaml:1: optimizer.beta1: must be a number, got \".nan\""},
      {"optimizer: {beta1: nan}", "run.yaml:1: optimizer.beta1: must be a number, got \"nan\""},
      {"optimizer: {beta1: 1e999}", "run.yaml:1: optimizer.beta1: 1e999 is out of range"},
      {"data: {train: a.txt}",
       "run.yaml:1: data.train: must be a list of strings, such as [one.txt, two.txt], got \"a.txt\""},
      {"data:\n  train:\n    - a\n    - [b]", "run.yaml:4: data.train[1]: must be a string, got a list"},
      {"precision: \"a\\nb\"", "run.yaml:1: precision: must be one line of UTF-8 text, got \"a\\nb\""},
      {"precision: \"\xff\"", "run.yaml:1: precision: must be one line of UTF-8 text, got \"\\xff\""},
      {"? [a]\n: 1", "run.yaml:1: a key must be a string, got a list"},
      {"- a", "run.yaml:1: must contain keys such as \"model:\", got a list"},
      {"steps: 1\n---\nsteps: 2", "run.yaml:3: a second YAML document; a configuration is a single document"},
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

TEST(ConfigText, SuggestsByMeaningBeforeSpelling) {
  const auto said = [](const std::string& yaml) {
    ConfigDraft draft;
    return std::string(Read(yaml, draft).message());
  };
  EXPECT_EQ(said("lr: 1"), "run.yaml:1: lr: unknown key; use optimizer.learning_rate");
  EXPECT_EQ(said("n-layer: 1"), "run.yaml:1: n-layer: unknown key; use model.layers");
  EXPECT_EQ(said("optimizer: {params: {lr: 1}}").substr(0, 61),
            "run.yaml:1: optimizer.params: unknown key; the keys of optimi");
  EXPECT_EQ(
      said("train_batch_size: 1"),
      "run.yaml:1: train_batch_size: unknown key; use batch.global_sequences (sequences per optimizer step, over all "
      "workers)");
  EXPECT_EQ(said("dropout: 0.1"), "run.yaml:1: dropout: unknown key; there is no dropout");
  EXPECT_EQ(said("every_steps: 5"),
            "run.yaml:1: every_steps: unknown key; did you mean evaluate.every_steps, checkpoint.every_steps, "
            "integrity.every_steps or histograms.every_steps?");
  // A key of the same section is suggested before the same name elsewhere.
  EXPECT_EQ(said("evaluate: {every: 5}"),
            "run.yaml:1: evaluate.every: unknown key; did you mean evaluate.every_steps?");
  EXPECT_EQ(said("evaluate: {batch: 5}"), "run.yaml:1: evaluate.batch: unknown key; did you mean evaluate.batches?");
  EXPECT_EQ(said("schedule: {name: cosine}"),
            "run.yaml:1: schedule.name: unknown key; use schedule.decay (cosine, linear, constant, wsd or restarts)");
  EXPECT_EQ(said("model: {name: gpt2-124m}"), "run.yaml:1: model.name: unknown key; use model.preset");
  EXPECT_EQ(said("optimizer: {seed: 1}"), "run.yaml:1: optimizer.seed: unknown key; did you mean seed?");
  EXPECT_EQ(said("learning_rat: 5"), "run.yaml:1: learning_rat: unknown key; did you mean optimizer.learning_rate?");
  EXPECT_EQ(
      said("evaluate: {zzz: 5}"),
      "run.yaml:1: evaluate.zzz: unknown key; the keys of evaluate are every_steps, batches, best, patience, weights");
}

// A suggestion that leads to an unknown key would be worse than none.
TEST(KeyWords, LeadToKeysThatThereAre) {
  std::set<std::string> seen;
  for (const KeyWord& row : KeyWords()) {
    EXPECT_TRUE(seen.insert(row.word).second) << row.word << " is duplicated";
    EXPECT_EQ(FindKeyWord(row.word), &row) << row.word << " must be lower case with underscores";
    if (*row.key == '\0') {
      EXPECT_NE(std::string(row.remark), "") << row.word;
      continue;
    }
    ConfigDraft draft;
    const std::string message(ApplyOverride("--set", std::string(row.key) + "=x", draft).message());
    EXPECT_EQ(message.find("unknown key"), std::string::npos) << row.word << " -> " << row.key;
    EXPECT_EQ(message.find("is a section"), std::string::npos) << row.word << " -> " << row.key;
  }
  EXPECT_GE(seen.size(), 200u);
  EXPECT_EQ(FindKeyWord("--Micro-Batch-Size")->key, std::string("batch.micro_sequences"));
  EXPECT_EQ(FindKeyWord("nothing_like_it"), nullptr);
  EXPECT_EQ(ValueMeant("BFloat16"), "bf16");
  EXPECT_EQ(ValueMeant("bf17"), "");
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

TEST(ConfigText, OverridesOfStringsMayBeInQuotes) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"/a b\"", "/a b"},   {"'/a b'", "/a b"}, {"\"a\\\"b\"", "a\"b"}, {"'it''s'", "it's"}, {"\"\"", ""},
      {"a \"b\"", "a \"b\""}, {"\"", "\""},       {"'a", "'a"},           {"7", "7"},
  };
  for (const auto& [value, text] : cases) {
    ConfigDraft draft;
    EXPECT_TRUE(ApplyOverride("--set", absl::StrCat("checkpoint.dir=", value), draft).ok()) << value;
    EXPECT_EQ(draft.config.checkpoint().dir(), text) << value;
  }
}

TEST(ConfigText, AnswersBadOverridesWithOneLine) {
  const BadText cases[] = {
      {"steps", "--set: must be KEY=VALUE, got \"steps\""},
      {"=1", "--set: must be KEY=VALUE, got \"=1\""},
      {"step=1", "--set: step: unknown key; did you mean steps?"},
      {"optimizer.lr=1", "--set: optimizer.lr: unknown key; use optimizer.learning_rate"},
      {"steps.x=1", "--set: steps: has no keys below it"},
      {"model={layers: 1}", "--set: model: is a section; set one of its keys, such as model.preset"},
      {"steps=x", "--set: steps: must be an integer, got \"x\""},
      {"steps=", "--set: steps: must be an integer, got nothing"},
      {"data.train=[", "--set: data.train: not valid YAML: end of sequence flow not found"},
      {"checkpoint.dir=\"a\\\"", "--set: checkpoint.dir: not valid YAML: illegal EOF in scalar"},
      {"checkpoint.dir=\"a\\nb\"", "--set: checkpoint.dir: must be one line of UTF-8 text, got \"a\\nb\""},
  };
  for (const BadText& bad : cases) {
    ConfigDraft draft;
    EXPECT_EQ(std::string(ApplyOverride("--set", bad.yaml, draft).message()), bad.message) << bad.yaml;
  }
}

}  // namespace
}  // namespace zerofleet::cli
