// Documents and endings, against the losses of their tokens.
#include "worker/inference/scoring.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/inference/inference_testing.h"
#include "worker/text/bpe_tokenizer.h"
#include "worker/text/chat_template.h"

namespace zerofleet::inference {
namespace {

class ScoringTest : public RandomModelTest {
 protected:
  void SetUp() override {
    RandomModelTest::SetUp();
    model_ = LoadModel(SaveModel(256), {});
  }
  double Loss(const std::string& before, const std::string& behind) {
    const auto ids = [&](const std::string& text) { return bytes_->Encode(text, true).value(); };
    return model_->ContinuationLoss(ids(before), ids(behind)).value();
  }

  // The tokens a, b and c, and </s>, which ends a text.
  static std::unique_ptr<text::Tokenizer> WithAnEnd() {
    return text::BpeTokenizer::Parse(R"({"added_tokens": [{"id": 3, "content": "</s>", "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}})")
        .value();
  }

  std::unique_ptr<InferenceModel> model_;
  std::unique_ptr<text::Tokenizer> bytes_ = text::Tokenizer::Load(text::kBytes).value();
};

TEST_F(ScoringTest, TheLikeliestEndingIsChosenAsItIsAndPerCharacter) {
  const std::string context = "He";
  const std::vector<std::string> endings = {"runs away", "x", "sits"};
  std::vector<double> losses, per_length;
  for (const std::string& ending : endings) {
    losses.push_back(Loss(context, " " + ending));
    per_length.push_back(losses.back() / static_cast<double>(ending.size()));
  }
  const auto least = [](const std::vector<double>& of) { return std::min_element(of.begin(), of.end()) - of.begin(); };
  ASSERT_NE(least(losses), least(per_length));  // so that the test can distinguish the two
  const auto line = [&](int64_t label) {
    return absl::StrCat(R"({"ctx": "He", "endings": ["runs away", "x", "sits"], "label": )", label, "}\n");
  };
  const auto all = ScoreChoices(*model_, *bytes_, line(least(losses)) + "\n" + line(least(per_length)));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->questions, 2);
  EXPECT_EQ(all->right, 1);
  EXPECT_EQ(all->right_per_length, 1);
  const auto first = ScoreChoices(*model_, *bytes_, line(least(losses)));
  EXPECT_EQ(first->right, 1);
  EXPECT_EQ(first->right_per_length, 0);
}

TEST_F(ScoringTest, FaultyQuestionsAreNamedByTheirLine) {
  const auto message = [&](const std::string& lines) {
    const absl::Status status = ScoreChoices(*model_, *bytes_, lines).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message("\n"), "has no question");
  EXPECT_EQ(message("ctx"), "1: not valid JSON at byte 1");
  EXPECT_EQ(message("\n{}"), "2: is no object with ctx, endings and label");
  EXPECT_EQ(message(R"({"ctx": "a", "endings": ["b", "c"], "label": "2"})"),
            "1: label: is not the number of one of 2 endings, which are 2 or more");
  EXPECT_EQ(message(R"({"ctx": "a", "endings": ["b", ""], "label": 0})"), "1: endings: are texts that are not empty");
  EXPECT_EQ(message(R"({"ctx": "", "endings": ["b", "c"], "label": 0})"), "1: ctx or an ending has no tokens");
}

// A document of bytes has no token before its first, which does not count.
TEST_F(ScoringTest, DocumentsSeeThemselvesAlone) {
  Overwrite(Path("two.jsonl"), "{\"text\": \"a longer text\"}\n");
  const auto loss = LossOfDocuments(*model_, *bytes_, nullptr, Path("two.jsonl"), 1);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(loss->documents, 1);
  EXPECT_EQ(loss->tokens, 12);
  EXPECT_EQ(loss->bytes, 13);
  EXPECT_NEAR(loss->nats, Loss("a", " longer text"), 1e-6);
  EXPECT_NEAR(loss->mean_of_documents, loss->nats / 12, 1e-9);

  Overwrite(Path("two.jsonl"), "{\"text\": \"a longer text\"}\n{\"text\": \"abc\"}\n");
  const auto both = LossOfDocuments(*model_, *bytes_, nullptr, Path("two.jsonl"), 1);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->documents, 2);
  EXPECT_EQ(both->tokens, 14);
  EXPECT_NEAR(both->nats, loss->nats + Loss("a", "bc"), 1e-6);
}

TEST_F(ScoringTest, DocumentsWithoutATokenAreAFaultOfTheData) {
  Overwrite(Path("empty.txt"), "");
  const absl::Status none = LossOfDocuments(*model_, *bytes_, nullptr, Path("empty.txt"), 1).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(none.message(), Path("empty.txt") + ": has no token whose loss is known");
}

TEST_F(ScoringTest, ADirectoryIsTheDocumentsOfItsFiles) {
  ASSERT_TRUE(CreateDirectory(Path("d")).ok());
  Overwrite(Path("d/a.txt"), "abc");
  Overwrite(Path("d/b.jsonl"), "{\"text\": \"a longer text\"}\n");
  const auto loss = LossOfDocuments(*model_, *bytes_, nullptr, Path("d"), 1);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(loss->documents, 2);
  EXPECT_EQ(loss->tokens, 14);
  EXPECT_EQ(loss->bytes, 16);
  EXPECT_NEAR(loss->nats, Loss("a", "bc") + Loss("a", " longer text"), 1e-6);
  EXPECT_NEAR(loss->mean_of_documents, (Loss("a", "bc") / 2 + Loss("a", " longer text") / 12) / 2, 1e-6);
}

// A template that ends each message with the token that ends a text does not divide the chat, and nothing is predicted
// after its last message.
TEST_F(ScoringTest, AChatIsADocument) {
  const auto tokenizer = WithAnEnd();
  const auto chat = text::ChatTemplate::Parse("{% for m in messages %}{{ m.content }}</s>{% endfor %}", "");
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::string line =
      R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}]})";
  Overwrite(Path("chats.jsonl"), line + "\n" + R"({"text": "ba"})" + "\n");
  const auto loss = LossOfDocuments(*model_, *tokenizer, &*chat, Path("chats.jsonl"), 1);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(loss->documents, 2);
  const std::vector<int32_t> first = {0, 1, 3, 2, 3}, second = {1, 0, 3}, before = {3};
  EXPECT_EQ(loss->tokens, 8);
  EXPECT_NEAR(loss->nats,
              model_->ContinuationLoss(before, first).value() + model_->ContinuationLoss(before, second).value(), 1e-6);
  EXPECT_FALSE(LossOfDocuments(*model_, *tokenizer, nullptr, Path("chats.jsonl"), 1).ok());
}

// As GPT-2's texts have it, a token that ends a text may also stand before the first and behind the last.
TEST_F(ScoringTest, BetweenSeparatorsAloneThereIsNoDocument) {
  const auto tokenizer = WithAnEnd();
  Overwrite(Path("a.txt"), "</s>ab</s>ba</s>");
  const auto loss = LossOfDocuments(*model_, *tokenizer, nullptr, Path("a.txt"), 1);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(loss->documents, 2);
  EXPECT_EQ(loss->tokens, 6);
}

}  // namespace
}  // namespace zerofleet::inference
