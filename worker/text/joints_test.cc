// Words between joints: where they end, and that a BPE model encodes them as it encodes the whole.
#include "worker/text/joints.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "worker/text/bpe.h"

namespace zerofleet::text {
namespace {

std::vector<std::string> Words(const Joints& joints, const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = joints.WordEnd(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

using Texts = std::vector<std::string>;

TEST(Joints, DivideWhereNothingIsMerged) {
  Joints joints;
  EXPECT_EQ(Words(joints, "▁a▁b"), Texts{"▁a▁b"}) << "divides before characters that are no tokens";
  for (const char* token : {"▁", "a", "b", "\n", "é"}) joints.AddToken(token);
  joints.Add("▁", "a");
  joints.Add("▁▁", "▁b");
  joints.Add("a", "b");
  EXPECT_EQ(Words(joints, "▁ab▁a▁▁b\na"), (Texts{"▁ab", "▁a", "▁▁", "b", "\n", "a"}));
  // Characters that are not ASCII count as one, and not all of them are known.
  EXPECT_EQ(Words(joints, "aéé▁a"), (Texts{"aéé", "▁a"}));
  joints.AddInside("aé▁");
  EXPECT_EQ(Words(joints, "aéé▁a"), Texts{"aéé▁a"});
}

// A tokenizer.json's model with random merges of a few characters.
nlohmann::json RandomModel(std::mt19937& draw) {
  nlohmann::json model = {{"type", "BPE"}, {"vocab", {{"<unk>", 0u}}}, {"merges", nlohmann::json::array()}};
  nlohmann::json& vocab = model["vocab"];
  const auto add = [&](const std::string& token) { vocab[token] = vocab.size(); };
  const bool byte_fallback = draw() % 2 == 0;
  for (int byte = 0; byte_fallback && byte < 256; ++byte) add(absl::StrFormat("<0x%02X>", byte));
  Texts merged;
  for (const char* character : {"a", "b", ".", "\n", "▁", "é"}) {
    if (draw() % 8 == 0) continue;
    add(character);
    merged.emplace_back(character);
  }
  // Seldom also what stands for other characters than its own.
  if (draw() % 8 == 0) merged.emplace_back("<unk>");
  if (byte_fallback && draw() % 8 == 0) merged.emplace_back("<0x0A>");
  for (int i = 0; i < 8 && !merged.empty(); ++i) {
    const std::string left = merged[draw() % merged.size()], right = merged[draw() % merged.size()];
    if (vocab.contains(left + right)) continue;
    model["merges"].push_back({left, right});
    add(left + right);
    merged.push_back(left + right);
  }
  model["byte_fallback"] = byte_fallback;
  model["fuse_unk"] = draw() % 2 == 0;
  model["ignore_merges"] = draw() % 8 == 0;
  if (draw() % 2 == 0) model["unk_token"] = "<unk>";
  return model;
}

TEST(Joints, WordsHaveTheIdsOfTheWhole) {
  std::mt19937 draw(5);
  int divided = 0;
  for (int i = 0; i < 100; ++i) {
    const nlohmann::json json = RandomModel(draw);
    const BpeModel model = BpeModel::Parse(json).value();
    for (int j = 0; j < 30; ++j) {
      std::string text;
      for (size_t k = draw() % 12 + 1; k > 0; --k) {
        static const Texts characters = {"a", "b", ".", "\n", "▁", "é", "x", "ü"};
        text += characters[draw() % characters.size()];
      }
      std::vector<int32_t> whole, words;
      model.Encode(text, whole);
      for (size_t at = 0; at < text.size();) {
        const size_t end = model.WordEnd(text, at);
        model.Encode(std::string_view(text).substr(at, end - at), words);
        divided += end < text.size() ? 1 : 0;
        at = end;
      }
      ASSERT_EQ(words, whole) << json << " of '" << text << "'";
    }
  }
  EXPECT_GT(divided, 300);
}

}  // namespace
}  // namespace zerofleet::text
