// The exact summary of a small run.
#include "cli/report/run_record.h"

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(RunRecord, SumsUpARun) {
  RunRecord record;
  v1::Event event;
  for (int step = 1; step <= 3; ++step) {
    event.mutable_step()->set_step(step);
    event.mutable_step()->set_loss(4.0 - step);
    event.mutable_step()->set_tokens(1000);
    event.mutable_step()->set_seconds(step == 1 ? 10 : 0.5);
    event.mutable_step()->set_mfu(0.3);
    record.Add(event);
  }
  event.mutable_evaluate()->set_step(3);
  event.mutable_evaluate()->set_loss(1.25);
  for (const auto& [name, loss] : {std::pair{"wiki", 1.0}, {"code", 1.5}}) {
    v1::SetLoss& set = *event.mutable_evaluate()->add_sets();
    set.set_name(name);
    set.set_loss(loss);
  }
  record.Add(event);
  EXPECT_EQ(record.CheckpointText(), "; no checkpoint was committed");
  event.mutable_checkpoint()->set_step(3);
  event.mutable_checkpoint()->set_path("c/step-00000003");
  event.mutable_checkpoint()->set_bytes(2 << 20);
  record.Add(event);
  EXPECT_EQ(record.CheckpointText(), "; the last committed checkpoint is step 3, c/step-00000003");
  v1::EndEvent& end = *event.mutable_end();
  end.set_step(3);
  end.set_seconds(11);
  end.set_tokens(3000);
  v1::RankReport& rank = *end.add_ranks();
  (*rank.mutable_device_memory())["parameters"].set_peak(1024);
  (*rank.mutable_host_memory())["buffers"].set_peak(2048);
  rank.set_device_reserved_bytes(1024);
  rank.set_host_reserved_bytes(1536);
  rank.set_rss_peak_bytes(1 << 20);
  for (const auto& [path, samples, epochs] : {std::tuple{"books", 700, 0.32}, {"web.txt", 300, 2.1}}) {
    v1::SetShare& share = *rank.add_data();
    share.set_path(path);
    share.set_samples(samples);
    share.set_epochs(epochs);
  }
  v1::CollectiveReport& collective = *rank.add_collectives();
  collective.set_operation("all_gather");
  collective.set_group("data");
  collective.set_backend("ucx");
  collective.set_calls(6);
  collective.set_bytes(2'000'000'000);
  collective.set_seconds(0.5);
  record.Add(event);
  EXPECT_EQ(SummaryText(record),
            "  steps            3\n"
            "  loss             3.0000 at step 1, 1.0000 at step 3\n"
            "  validation loss  1.2500 (wiki 1.0000, code 1.5000) at step 3\n"
            "  tokens/s         2.0K\n"
            "  MFU              30.0%\n"
            "  time             11.0s\n"
            "  tokens           3.0K\n"
            "  data             books 70.0% (0.32 epochs), web.txt 30.0% (2.10 epochs)\n"
            "  checkpoint       c/step-00000003, 2.0 MiB\n"
            "\n"
            "Peak memory per rank\n"
            "  rank  parameters  gradients  optimizer  activations  gathered  buffers  reserved  process peak\n"
            "  0        1.0 KiB        0 B        0 B          0 B       0 B  2.0 KiB   2.5 KiB       1.0 MiB\n"
            "\n"
            "Collectives of rank 0\n"
            "  collective  group  backend  calls  sent GB  busbw GB/s\n"
            "  all_gather   data      ucx      6    2.000        4.00\n");
  const PlannedMemory planned = {{1024, 0, 0, 0, 0, 4096}, 4608, 2 << 20};
  EXPECT_NE(
      SummaryText(record, {}, &planned)
          .find("  plan     1.0 KiB        0 B        0 B          0 B       0 B  4.0 KiB   4.5 KiB       2.0 MiB\n"
                "  0        1.0 KiB        0 B        0 B          0 B       0 B  2.0 KiB   2.5 KiB       1.0 MiB\n"),
      std::string::npos);
  for (const int columns : {60, 80, 200}) {
    const std::string text = SummaryText(record, Terminal::OfSize(columns, 24, /*live=*/true, /*color=*/false));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n')))
      EXPECT_LE(DisplayWidth(line), columns) << line;
    EXPECT_NE(text.find("process peak"), std::string::npos);
  }
}

TEST(RunRecord, TakesNoteOnceOfWhatIsToldAgain) {
  RunRecord record;
  const auto add = [&](auto fill) {
    v1::Event event;
    fill(event);
    return record.Add(event);
  };
  const auto step = [&](int64_t number, uint64_t generation) {
    return add([&](v1::Event& event) {
      event.mutable_step()->set_step(number);
      event.mutable_step()->set_generation(generation);
    });
  };
  const auto evaluate = [&](int64_t number) {
    return add([&](v1::Event& event) { event.mutable_evaluate()->set_step(number); });
  };
  const auto checkpoint = [&](int64_t number) {
    return add([&](v1::Event& event) { event.mutable_checkpoint()->set_step(number); });
  };
  const auto histogram = [&](int64_t number, const char* values) {
    return add([&](v1::Event& event) {
      event.mutable_histogram()->set_step(number);
      event.mutable_histogram()->set_values(values);
      event.mutable_histogram()->set_tensor("w");
    });
  };
  const auto start = [&] { return add([](v1::Event& event) { event.mutable_start(); }); };
  EXPECT_TRUE(start());
  EXPECT_TRUE(step(1, 7) && step(2, 7) && evaluate(2) && checkpoint(2));
  EXPECT_TRUE(histogram(2, "weights") && histogram(2, "gradients"));
  EXPECT_FALSE(histogram(1, "weights") || histogram(2, "weights") || histogram(2, "gradients"));
  EXPECT_FALSE(start() || step(1, 7) || step(2, 7) || evaluate(2) || checkpoint(2));
  EXPECT_TRUE(step(3, 7));
  EXPECT_TRUE(add([](v1::Event& event) { event.mutable_recovery()->set_resumed_step(1); }));
  EXPECT_TRUE(histogram(2, "weights"));
  EXPECT_FALSE(histogram(2, "weights"));
  EXPECT_TRUE(step(2, 8) && evaluate(2) && checkpoint(2));
  EXPECT_FALSE(step(2, 8) || evaluate(2) || checkpoint(2));
}

TEST(RunRecord, AStartIsNewsOnlyInAGenerationThatWasNotHeardOf) {
  RunRecord record;
  v1::Event start, recovery;
  start.mutable_start()->set_generation(1);
  recovery.mutable_recovery()->set_generation(2);
  EXPECT_TRUE(record.Add(start));
  EXPECT_FALSE(record.Add(start));
  EXPECT_TRUE(record.Add(recovery));
  start.mutable_start()->set_generation(2);  // repeated by a coordinator that adopted the fleet
  EXPECT_FALSE(record.Add(start));
  start.mutable_start()->set_generation(3);  // a coordinator that was restarted in the next recovery
  EXPECT_TRUE(record.Add(start));
}

}  // namespace
}  // namespace zerofleet::cli
