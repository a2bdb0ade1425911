// What a model card says, and how it shows names from outside.
#include "worker/checkpoint/model_card.h"

#include <string>

#include "gmock/gmock.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ModelCardTest : public CheckpointTest {
 protected:
  static v1::CheckpointManifest Trained() {
    v1::CheckpointManifest manifest;
    manifest.set_step(50);
    manifest.set_writer_version("0.2.0 (abc)");
    *manifest.mutable_config() = SmallConfig();
    manifest.mutable_config()->mutable_optimizer()->set_learning_rate(3e-4);
    manifest.mutable_config()->set_seed(7);
    for (const char* path : {"private/ann/bible.txt", "a|b<script>.txt"}) {
      manifest.mutable_data()->mutable_train()->add_files()->set_path(path);
    }
    manifest.mutable_data()->mutable_train()->set_more_files(3);
    return manifest;
  }
};

TEST_F(ModelCardTest, SaysWhatWasTrainedOnWhat) {
  v1::CheckpointManifest manifest = Trained();
  manifest.mutable_config()->set_init_from("imports/smollm/step-00000000/");
  manifest.mutable_best()->set_step(40);
  manifest.mutable_best()->set_loss(3.25);
  const std::string card = ModelCardText(manifest, SmallSpec(), device::DType::kBF16);
  EXPECT_THAT(card, StartsWith("---\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n\n# gpt2, "));
  EXPECT_THAT(card, HasSubstr("The weights of step 50, written in bf16 by Zerofleet."));
  EXPECT_THAT(card, HasSubstr("| model | gpt2: 2 layers, hidden size 15, 3 heads, context 7, vocabulary 31 |\n"));
  EXPECT_THAT(card, HasSubstr(absl::StrCat("| parameters | ", SmallSpec().parameters(), " |\n")));
  EXPECT_THAT(card, HasSubstr("| trained for | 50 steps of 4 sequences, 1.4K tokens |\n"));
  EXPECT_THAT(card, HasSubstr("| optimizer | adamw, learning rate 0.0003, weight decay "));
  EXPECT_THAT(card, HasSubstr("| seed | 7 |\n"));
  EXPECT_THAT(card, HasSubstr("| data | bible.txt, a\\|b&lt;script>.txt, 3 more |\n"));
  EXPECT_THAT(card, HasSubstr("| started from | step-00000000 |\n"));
  EXPECT_THAT(card, HasSubstr("| lowest validation loss | 3.25 at step 40 |\n"));
  EXPECT_THAT(card, HasSubstr("| Zerofleet | 0.2.0 (abc) |\n"));
  EXPECT_THAT(card, Not(HasSubstr("ann"))) << "directories are nobody's business";
}

TEST_F(ModelCardTest, OfAnImportSaysNothingOfTraining) {
  v1::CheckpointManifest manifest = Trained();
  manifest.set_step(0);
  manifest.mutable_config()->mutable_model()->set_kv_heads(1);
  const std::string card = ModelCardText(manifest, SmallSpec(), device::DType::kF32);
  EXPECT_THAT(card, HasSubstr("3 heads (1 of keys and values)"));
  EXPECT_THAT(card, HasSubstr("written in fp32"));
  for (const char* row : {"trained for", "optimizer", "seed", "data", "started from"}) {
    EXPECT_THAT(card, Not(HasSubstr(absl::StrCat("| ", row, " |"))));
  }
}

}  // namespace
}  // namespace zerofleet::checkpoint
