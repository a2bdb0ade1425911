// The exact lines of the report, and files that accept no more.
#include "cli/report/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

v1::Event StepEvent() {
  v1::Event event;
  event.set_unix_seconds(1764039157.25);
  v1::StepEvent& step = *event.mutable_step();
  step.set_step(3);
  step.set_loss(0.1);
  step.set_grad_norm(1.0 / 3);
  step.set_learning_rate(3e-4);
  step.set_tokens(4096);
  step.set_seconds(0.5);
  step.set_tokens_per_second(8192);
  step.set_mfu(0.25);
  step.set_generation(7);
  return event;
}

// The "time" field of an event without a time.
constexpr char kNoTime[] = R"("time":"1970-01-01T00:00:00.000000Z",)";

TEST(Report, StepLineIsExact) {
  EXPECT_EQ(
      ReportLine(StepEvent()),
      R"({"event":"step","time":"2025-11-25T02:52:37.250000Z","step":3,"loss":0.1,"grad_norm":0.3333333333333333,)"
      R"("learning_rate":0.0003,"tokens":4096,"seconds":0.5,"tokens_per_second":8192.0,"mfu":0.25,"generation":7})");
}

TEST(Report, StartSaysWhetherItResumed) {
  v1::Event event;
  event.mutable_start()->set_version("0.1.0");
  event.mutable_start()->set_revision("5d40281");
  event.mutable_start()->set_run_id("0a4e");
  event.mutable_start()->mutable_config()->set_precision("bf16");
  std::string line = ReportLine(event);
  const std::string begin = absl::StrCat(R"({"event":"start",)", kNoTime,
                                         R"("version":"0.1.0","revision":"5d40281","run_id":"0a4e","config":{"mo)");
  EXPECT_EQ(line.substr(0, begin.size()), begin);
  EXPECT_NE(line.find(R"("parameters":0,"resumed_from":null})"), std::string::npos) << line;
  event.mutable_start()->set_resumed_from(0);
  EXPECT_NE(ReportLine(event).find(R"("resumed_from":0})"), std::string::npos);
}

TEST(Report, AFailedSaveIsALine) {
  v1::Event event;
  event.mutable_save_failed()->set_step(20);
  event.mutable_save_failed()->set_rank(-1);
  event.mutable_save_failed()->set_message("disk full");
  event.mutable_save_failed()->set_in_a_row(2);
  EXPECT_EQ(ReportLine(event), absl::StrCat(R"({"event":"save_failed",)", kNoTime,
                                            R"("step":20,"rank":-1,"message":"disk full","in_a_row":2})"));
}

TEST(Report, ARollbackIsALine) {
  v1::Event event;
  event.mutable_rollback()->set_generation(3);
  event.mutable_rollback()->set_step(25);
  event.mutable_rollback()->set_cause("loss nan");
  event.mutable_rollback()->set_resumed_step(20);
  event.mutable_rollback()->set_first_sample(160);
  event.mutable_rollback()->set_skipped_samples(40);
  EXPECT_EQ(ReportLine(event), absl::StrCat(R"({"event":"rollback",)", kNoTime,
                                            R"("generation":3,"step":25,"cause":"loss nan","resumed_step":20,)"
                                            R"("first_sample":160,"skipped_samples":40})"));
}

TEST(Report, EndHoldsEachRanksMemoryAndCollectives) {
  v1::Event event;
  v1::EndEvent& end = *event.mutable_end();
  end.set_step(10);
  end.set_seconds(1.5);
  end.set_tokens(640);
  end.set_stopped(true);
  v1::RankReport& rank = *end.add_ranks();
  (*rank.mutable_device_memory())["optimizer"].set_current(12);
  (*rank.mutable_device_memory())["optimizer"].set_peak(13);
  rank.set_device_reserved_bytes(20);
  rank.set_device_fragmentation_ratio(0.5);
  rank.set_rss_peak_bytes(99);
  v1::SetShare& share = *rank.add_data();
  share.set_path("a.txt");
  share.set_weight(7);
  share.set_samples(70);
  share.set_epochs(0.5);
  v1::CollectiveReport& collective = *rank.add_collectives();
  collective.set_operation("all_gather");
  collective.set_group("data");
  collective.set_backend("ucx");
  collective.set_calls(2);
  collective.set_bytes(64);
  collective.set_seconds(0.25);
  v1::LinkReport& link = *rank.add_link();
  link.set_direction("to_host");
  link.set_copies(3);
  link.set_bytes(96);
  const std::string none = R"({"current":0,"peak":0})";
  EXPECT_EQ(
      ReportLine(event),
      absl::StrCat(R"({"event":"end",)", kNoTime) +
          R"("step":10,"seconds":1.5,"tokens":640,"stopped":true,"ranks":[{"rank":0,"memory":{"device":{"parameters":)" +
          none + R"(,"gradients":)" + none + R"(,"optimizer":{"current":12,"peak":13},"activations":)" + none +
          R"(,"gathered":)" + none + R"(,"buffers":)" + none + R"(,"ema":)" + none + R"(},"host":{"parameters":)" +
          none + R"(,"gradients":)" + none + R"(,"optimizer":)" + none + R"(,"activations":)" + none +
          R"(,"gathered":)" + none + R"(,"buffers":)" + none + R"(,"ema":)" + none +
          R"(}},"reserved_bytes":{"device":20,"host":0},"fragmentation_ratio":{"device":0.5,"host":0.0},"rss_peak_bytes":99,)" +
          R"("collectives":[{"operation":"all_gather","group":"data","backend":"ucx","calls":2,"bytes":64,)" +
          R"("seconds":0.25}],"link":{"to_host":{"copies":3,"bytes":96}},)"
          R"("data":[{"path":"a.txt","weight":7,"samples":70,"epochs":0.5}]}]})");
}

TEST(Report, LeavesOutFailuresAndNotices) {
  v1::Event event;
  event.mutable_failure()->set_message("x");
  EXPECT_EQ(ReportLine(event), "");
  event.mutable_notice()->set_message("x");
  EXPECT_EQ(ReportLine(event), "");
}

TEST(Report, AppendsToWhatIsThere) {
  const std::string path = testing::TempDir() + "/report_test_" + std::to_string(getpid()) + ".jsonl";
  for (int run = 0; run < 2; ++run) {
    auto writer = ReportWriter::Open(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    (*writer)->Write(StepEvent());
    EXPECT_TRUE((*writer)->status().ok());
  }
  EXPECT_EQ(ReadSmallFile(path, 1 << 16).value(), ReportLine(StepEvent()) + "\n" + ReportLine(StepEvent()) + "\n");
  unlink(path.c_str());
}

TEST(Report, ATornLastLineIsRemovedBeforeTheNext) {
  const std::string path = testing::TempDir() + "/report_test_torn_" + std::to_string(getpid()) + ".jsonl";
  const std::string line = ReportLine(StepEvent());
  const auto after = [&](const std::string& before) {
    EXPECT_TRUE(WriteFileAtomically(path, before).ok());
    const auto writer = ReportWriter::Open(path).value();
    writer->Write(StepEvent());
    return std::pair<std::string, std::string>(ReadSmallFile(path, 1 << 20).value(), writer->note());
  };
  const std::string note = "report " + path + ": its last line was cut short and has been removed";
  const std::string whole = line + "\n";
  for (const std::string& torn :
       {std::string("{"), line.substr(0, 40), line.substr(0, 20) + std::string(200000, 'x')}) {
    EXPECT_EQ(after(whole + torn), std::make_pair(whole + whole, note));
    EXPECT_EQ(after(torn), std::make_pair(whole, note));
  }
  EXPECT_EQ(after(whole + line), std::make_pair(whole + whole + whole, std::string()));  // only its newline is missing
  EXPECT_TRUE(WriteFileAtomically(path, "my notes").ok());
  EXPECT_EQ(ReportWriter::Open(path).status().message(),
            "--report: " + path + " ends in what is no line of a report; name another file");
  EXPECT_EQ(ReadSmallFile(path, 1 << 20).value(), "my notes");
  unlink(path.c_str());
}

class Fifo {
 public:
  Fifo() : path_(testing::TempDir() + "/report_test_fifo_" + std::to_string(getpid())) { mkfifo(path_.c_str(), 0600); }
  ~Fifo() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Report, AFifoWithoutAReaderIsRefused) {
  const Fifo fifo;
  EXPECT_EQ(ReportWriter::Open(fifo.path()).status().message(),
            "--report: " + fifo.path() + " has no reader; start what reads it first, or name a regular file");
}

TEST(Report, AFullPipeHoldsUpNothingAndLosesNothing) {
  const Fifo fifo;
  const int reader = open(fifo.path().c_str(), O_RDONLY | O_NONBLOCK);
  auto writer = ReportWriter::Open(fifo.path());
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string line = ReportLine(StepEvent()) + "\n";
  constexpr size_t kLines = 2000;  // about 160 bytes each; a pipe takes 64 KiB
  for (size_t i = 0; i < kLines; ++i) (*writer)->Write(StepEvent());
  EXPECT_TRUE((*writer)->status().ok());
  std::string received;
  std::thread slow([&] {
    fcntl(reader, F_SETFL, 0);
    char buffer[1 << 12];
    while (received.size() < kLines * line.size()) {
      const ssize_t count = read(reader, buffer, sizeof(buffer));
      if (count <= 0) break;
      received.append(buffer, static_cast<size_t>(count));
    }
  });
  EXPECT_TRUE((*writer)->Finish(/*seconds=*/600).ok());
  writer->reset();  // a reader that is still waiting sees end of file
  slow.join();
  close(reader);
  EXPECT_EQ(received.size(), kLines * line.size());
  EXPECT_EQ(received.substr(received.size() - line.size()), line);
}

TEST(Report, GivesUpOnAReaderThatTakesNothing) {
  const Fifo fifo;
  const int reader = open(fifo.path().c_str(), O_RDONLY | O_NONBLOCK);
  auto writer = ReportWriter::Open(fifo.path());
  ASSERT_TRUE(writer.ok()) << writer.status();
  v1::Event event;
  event.mutable_save_failed()->set_message(std::string(64 << 10, 'm'));
  const size_t lines = ReportWriter::kMostWaiting / ReportLine(event).size() + 10;
  for (size_t i = 0; i < lines && (*writer)->status().ok(); ++i) (*writer)->Write(event);
  EXPECT_EQ((*writer)->status().message(),
            "report " + fifo.path() + ": its reader is too slow; it ends before this run did");
  close(reader);
}

TEST(Report, SaysWhatItCannotWrite) {
  EXPECT_EQ(ReportWriter::Open("/no/such/dir/r.jsonl").status().message(),
            "--report: /no/such/dir/r.jsonl cannot be opened for writing: No such file or directory");
  auto full = ReportWriter::Open("/dev/full");
  ASSERT_TRUE(full.ok());
  (*full)->Write(StepEvent());
  EXPECT_EQ((*full)->status().message(), "report /dev/full: No space left on device; it ends before this run did");
}

}  // namespace
}  // namespace zerofleet::cli
