// Parsing, exit codes, and the one-line message of every usage error.
#include "cli/commands/command_line.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Ran {
  int exit_code;
  std::string out, err;
};

Ran RunWith(std::vector<const char*> arguments) {
  std::ostringstream out, err;
  arguments.insert(arguments.begin(), "zerofleet");
  const int exit_code = RunCommandLine(static_cast<int>(arguments.size()), arguments.data(), {out, err, {}, {}});
  return {exit_code, out.str(), err.str()};
}

void ExpectUsageError(const Ran& ran, const std::string& line) {
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, line + "\n");
}

TEST(CommandLine, HelpAndVersionGoToStdout) {
  const Ran help = RunWith({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Example:"));
  EXPECT_EQ(help.err, "");
  const Ran version = RunWith({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("zerofleet "));
}

TEST(CommandLine, ReportsGoToAFileOrToStdout) {
  const std::string dir = JoinPath(testing::TempDir(), "command_line_test_report_" + std::to_string(getpid()));
  ASSERT_TRUE(CreateDirectories(dir).ok());
  const std::string report = JoinPath(dir, "a.jsonl"), csv = JoinPath(dir, "a.csv");
  ASSERT_TRUE(WriteFileAtomically(report, R"({"event":"step","time":"2026-11-25T10:00:00.000000Z","step":1,"loss":2,)"
                                          R"("grad_norm":1,"learning_rate":0.5,"tokens":100,"seconds":2,)"
                                          R"("tokens_per_second":50,"mfu":0.5})"
                                          "\n")
                  .ok());
  const Ran to_file = RunWith({"report", report.c_str(), "--csv", csv.c_str()});
  EXPECT_EQ(to_file.exit_code, 0) << to_file.err;
  EXPECT_EQ(to_file.out, "wrote " + csv + "\n");
  const Ran to_stdout = RunWith({"report", report.c_str(), "--csv", "-"});
  EXPECT_EQ(to_stdout.exit_code, 0) << to_stdout.err;
  EXPECT_EQ(to_stdout.out, ReadSmallFile(csv, 10'000).value());
  EXPECT_THAT(RunWith({"report", report.c_str(), "--html", "-"}).out, StartsWith("<!doctype html>"));
  EXPECT_FALSE(FileExists("-"));
  ASSERT_TRUE(RemoveTree(dir).ok());
}

TEST(CommandLine, AReaderThatClosesItsPipeEndsNoCommand) {
  signal(SIGPIPE, SIG_DFL);
  RunWith({"--version"});
  struct sigaction action = {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_IGN);
}

TEST(CommandLine, UsageErrorsAreOneLine) {
  ExpectUsageError(RunWith({}), "zerofleet: a command is missing, such as train (see zerofleet --help)");
  ExpectUsageError(RunWith({"paln"}), "zerofleet: unknown command \"paln\"; did you mean plan? (see zerofleet --help)");
  ExpectUsageError(RunWith({"evaluate"}),
                   "zerofleet: unknown command \"evaluate\"; use zerofleet eval (see zerofleet --help)");
  ExpectUsageError(RunWith({"--bogus"}), "zerofleet: unknown option --bogus (see zerofleet --help)");
  ExpectUsageError(RunWith({"checkpoint"}),
                   "zerofleet: a command is missing, such as list (see zerofleet checkpoint --help)");
  ExpectUsageError(RunWith({"checkpoint", "lits", "--json"}),
                   "zerofleet: unknown command \"lits\" of zerofleet checkpoint; did you mean list? "
                   "(see zerofleet checkpoint --help)");
  ExpectUsageError(RunWith({"checkpoint", "--bogus"}),
                   "zerofleet: unknown option --bogus (see zerofleet checkpoint --help)");
  ExpectUsageError(RunWith({"plan", "--bogus"}), "zerofleet: unknown option --bogus (see zerofleet plan --help)");
  ExpectUsageError(RunWith({"plan", "--jsno"}),
                   "zerofleet: unknown option --jsno; did you mean --json? (see zerofleet plan --help)");
  ExpectUsageError(
      RunWith({"train", "a.yaml", "--lr=1"}),
      "zerofleet: unknown option --lr; use --set optimizer.learning_rate=VALUE (see zerofleet train --help)");
  ExpectUsageError(
      RunWith({"train", "a.yaml", "--nproc_per_node", "4"}),
      "zerofleet: unknown option --nproc_per_node; use --set parallel.workers=VALUE (see zerofleet train --help)");
  ExpectUsageError(RunWith({"plan", "a.yaml", "--json=maybe"}),
                   "zerofleet: --json takes no value (see zerofleet plan --help)");
  ExpectUsageError(RunWith({"coordinator", "--watched=7"}),
                   "zerofleet: --watched takes no value (see zerofleet coordinator --help)");
  ExpectUsageError(RunWith({"eval", "--checkpoint", "a", "--data", "b", "more"}),
                   "zerofleet: unexpected argument \"more\" (see zerofleet eval --help)");
  ExpectUsageError(RunWith({"plan"}),
                   "zerofleet: plan needs exactly one of a configuration file, --preset, --parameters and --table");
  ExpectUsageError(RunWith({"plan", "--parameters", "x"}),
                   "zerofleet: --parameters: must be 1 to 1000T, such as 124439808, 7.5B or 1T, got \"x\"");
  ExpectUsageError(RunWith({"plan", "--parameters", "1B", "--workers", "0"}),
                   "zerofleet: --workers: must be 1 to 1000000, got 0");
  ExpectUsageError(RunWith({"plan", "--table", "4"}), "zerofleet: --table: must be 1, 2 or 3, got \"4\"");
  for (const char* ignored : {"--html=a.html", "--gpus=8", "--set=steps=2", "--precision=fp32", "--measure"}) {
    ExpectUsageError(RunWith({"plan", "--table", "1", ignored}),
                     "zerofleet: --table: is computed from the paper's settings; leave out --html, --set, --precision, "
                     "--measure and what describes a cluster");
  }
  ExpectUsageError(RunWith({"plan", "--preset", "zero-8b", "--gpus", "-1"}),
                   "zerofleet: --gpus: must be a whole number from 1 to 16384, got \"-1\"");
  ExpectUsageError(RunWith({"plan", "--preset", "zero-8b", "--html", "a.html"}),
                   "zerofleet: --html: is of a plan on a cluster; give one, such as --gpus 8");
}

// A flag may stand before the file as well as after it.
TEST(CommandLine, AFlagOfAListLeavesWhatFollowsItsValue) {
  ExpectUsageError(RunWith({"plan", "--set", "parallel.workers=2", "no/such.yaml"}),
                   "zerofleet: no/such.yaml: cannot stat: No such file or directory");
  ExpectUsageError(RunWith({"train", "--set", "parallel.workers=2", "no/such.yaml"}),
                   "zerofleet: no/such.yaml: cannot stat: No such file or directory");
  ExpectUsageError(RunWith({"run", "--set", "parallel.workers=2", "no/such.py", "--", "--epochs", "3"}),
                   "zerofleet: SCRIPT: no/such.py: No such file or directory");
  ExpectUsageError(RunWith({"sweep", "--grid", "seed=1,2", "--set", "device=cpu", "no/such.yaml", "--dir", "d"}),
                   "zerofleet: seed-1: no/such.yaml: cannot stat: No such file or directory");
}

TEST(CommandLine, AScriptsOwnArgumentsGoBehindTwoDashes) {
  ExpectUsageError(
      RunWith({"run", "no/such.py", "--epochs", "3"}),
      "zerofleet: unknown option --epochs; the script's own arguments go behind --, as in SCRIPT -- --epochs 3 "
      "(see zerofleet run --help)");
  ExpectUsageError(RunWith({"run", "no/such.py", "--worker", "3"}),
                   "zerofleet: unknown option --worker; did you mean --workers? (see zerofleet run --help)");
}

TEST(CommandLine, ValuesThatTheParserWouldTakeAreRefused) {
  const std::string numbers = "zerofleet: --seed: must be a whole number from 0 to 18446744073709551615, got ";
  const std::string see = " (see zerofleet generate --help)";
  for (const char* seed : {"99999999999999999999", "-1", "0x10", "1.5", ""}) {
    ExpectUsageError(RunWith({"generate", "--checkpoint", "a", "--prompt", "b", "--seed", seed}),
                     numbers + "\"" + seed + "\"" + see);
  }
  for (const char* number : {"0", "2", "nan", "x"}) {
    ExpectUsageError(RunWith({"doctor", "--checkpoint", "a", "--batch", "b", "--expect", "c", "--tolerance", number}),
                     std::string("zerofleet: --tolerance: must be a number from 1e-09 to 1, got \"") + number +
                         "\" (see zerofleet doctor --help)");
  }
  ExpectUsageError(RunWith({"train", "a.yaml", "--run-name", "a\nb\x1b[31m"}),
                   "zerofleet: --run-name: must be at most 200 bytes of text without control characters, got "
                   "\"a\\nb\\x1b[31m\" (see zerofleet train --help)");
  EXPECT_THAT(RunWith({"worker", "--coordinator", "127.0.0.1:1", "--advertise", "a\x1b"}).err,
              HasSubstr("--advertise: must be at most 200 bytes of text"));
  ExpectUsageError(RunWith({"eval", "--checkpoint", "a", "--data", "b", "--data", "c"}),
                   "zerofleet: --data takes one value, got 2 (see zerofleet eval --help)");
  ExpectUsageError(RunWith({"plan", "--parameters", "1B", "--workers", "many"}),
                   "zerofleet: --workers: must be a number, got \"many\" (see zerofleet plan --help)");
}

// A script whose variable is not set passes "", which must not quietly leave a report unwritten or a port unprotected.
TEST(CommandLine, AnEmptyPathOrNameIsRefused) {
  const auto optional = [](const std::string& flag, const std::string& command) {
    return "zerofleet: " + flag + ": must not be empty; leave it out if it is not wanted (see zerofleet " + command +
           " --help)";
  };
  ExpectUsageError(RunWith({"train", "a.yaml", "--report", ""}), optional("--report", "train"));
  ExpectUsageError(RunWith({"train", "a.yaml", "--tensorboard", ""}), optional("--tensorboard", "train"));
  for (const char* flag : {"--token-file", "--tls-ca", "--tls-worker-name"}) {
    ExpectUsageError(RunWith({"coordinator", "--config", "a", "--listen", "b:1", "--state-dir", "c", flag, ""}),
                     optional(flag, "coordinator"));
  }
  ExpectUsageError(RunWith({"train", ""}), "zerofleet: CONFIG: must not be empty (see zerofleet train --help)");
  ExpectUsageError(RunWith({"checkpoint", "import", "a", ""}),
                   "zerofleet: STEP_DIR: must not be empty (see zerofleet checkpoint import --help)");
  ExpectUsageError(RunWith({"tokenize", "--tokenizer", "bytes", "--output", "", "a.txt"}),
                   "zerofleet: --output: must not be empty (see zerofleet tokenize --help)");
}

TEST(CommandLine, WhatADirectoryIsIsSaid) {
  const std::string dir = testing::TempDir() + "/command_line_test_dir_" + std::to_string(getpid());
  ASSERT_TRUE(CreateDirectories(dir).ok());
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir, "adapter_config.json"), "{}").ok());
  ExpectUsageError(RunWith({"checkpoint", "import", dir.c_str(), "to/step-00000000"}),
                   "zerofleet: --base: is missing; " + dir +
                       " holds low-rank adapters, so name the step directory that they go with");
  EXPECT_EQ(RunWith({"checkpoint", "list", dir.c_str()}).exit_code, 0);
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir, "manifest.json"), "{}").ok());
  const std::string line =
      "zerofleet: " + dir + ": is a step directory; name the directory that holds it, the run's checkpoint.dir";
  ExpectUsageError(RunWith({"checkpoint", "list", dir.c_str()}), line);
  ExpectUsageError(RunWith({"verify-run", dir.c_str(), "--steps", "1-2"}), line);
  EXPECT_TRUE(RemoveTree(dir).ok());
}

TEST(CommandLine, APageReplacesNoDevice) {
  ExpectUsageError(
      RunWith({"plan", "--preset", "zero-8b", "--gpus", "8", "--html", "/proc/self/fd"}),
      "zerofleet: --html: \"/proc/self/fd\" is not a regular file, and would be replaced; name a file or a "
      "new one");
}

TEST(CommandLine, AnExportGoesToADirectoryThatIsThereUnderANameOfItsKind) {
  ExpectUsageError(RunWith({"checkpoint", "export", "a", "no/such/out"}),
                   "zerofleet: OUT: must be in a directory that is there, got \"no/such/out\" "
                   "(see zerofleet checkpoint export --help)");
  ExpectUsageError(RunWith({"checkpoint", "export", "a", "n\xC3\xB6/out"}),
                   "zerofleet: OUT: must be in a directory that is there, got \"n\xC3\xB6/out\" "
                   "(see zerofleet checkpoint export --help)");
  ExpectUsageError(RunWith({"checkpoint", "export", "a", "n\xC3/out"}),
                   "zerofleet: OUT: must be in a directory that is there, got \"n\\xc3/out\" "
                   "(see zerofleet checkpoint export --help)");
  ExpectUsageError(RunWith({"checkpoint", "export", "a", "a.GGUF", "--adapters"}),
                   "zerofleet: OUT: a.GGUF: adapters are written to a directory, not a GGUF file");
}

TEST(CommandLine, LocalRankIsTheFlagsOrTheEnvironments) {
  // An unknown device stops the worker as soon as it has read its flags.
  const std::vector<const char*> worker = {"worker", "--coordinator", "127.0.0.1:1", "--device", "tpu"};
  const std::string read = "zerofleet: unknown device 'tpu'; use auto, cpu or cuda";
  setenv("LOCAL_RANK", "many", 1);
  const Ran from_environment = RunWith(worker);
  EXPECT_EQ(from_environment.exit_code, 2);
  EXPECT_THAT(from_environment.err, HasSubstr("LOCAL_RANK: must be 0 to 1023, got \"many\""));
  std::vector<const char*> with_flag = worker;
  with_flag.insert(with_flag.end(), {"--local-rank", "3"});
  ExpectUsageError(RunWith(with_flag), read);
  setenv("LOCAL_RANK", "7", 1);
  ExpectUsageError(RunWith(worker), read);
  unsetenv("LOCAL_RANK");
  ExpectUsageError(RunWith(worker), read);
}

TEST(CommandLine, APlanSaysWhichLimitItExceeds) {
  const std::string config = testing::TempDir() + "/command_line_test_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(config) << "model: {layers: 1, hidden: 8, heads: 1, context: 8, vocab: 256}\n"
                           "data: {train: [none.txt]}\nbatch: {global_sequences: 2}\nsteps: 1\n"
                           "parallel: {workers: 1}\ndevice: cpu\n";
  const Ran fits = RunWith({"plan", config.c_str()});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.out, Not(HasSubstr("train refuses")));
  const Ran exceeds = RunWith({"plan", config.c_str(), "--set", "memory.device_limit=1KiB"});
  EXPECT_EQ(exceeds.exit_code, 0) << exceeds.err;
  EXPECT_THAT(exceeds.out, HasSubstr("train refuses this: memory.device_limit: a worker needs "));
  EXPECT_THAT(RunWith({"plan", config.c_str(), "--json"}).out, HasSubstr("\"exceeds\": null"));
  EXPECT_THAT(RunWith({"plan", config.c_str(), "--json", "--set", "memory.device_limit=1KiB"}).out,
              HasSubstr("\"exceeds\": \"memory.device_limit: "));
  std::remove(config.c_str());
}

TEST(CommandLine, ASweepTrainsNothingTwice) {
  const std::string config = testing::TempDir() + "/command_line_test_sweep_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(config) << "model: {layers: 1, hidden: 8, heads: 1, context: 8, vocab: 256}\n"
                           "data: {train: [none.txt]}\nbatch: {global_sequences: 2}\nsteps: 1\n"
                           "parallel: {workers: 1}\ndevice: cpu\n";
  ExpectUsageError(RunWith({"sweep", config.c_str(), "--grid", "optimizer.learning_rate=1e-3,1e-03"}),
                   "zerofleet: --grid: learning-rate-1e-3 and learning-rate-1e-03 are the same run; leave one of the "
                   "two values out");
  ExpectUsageError(RunWith({"sweep", config.c_str(), "--set", "seed=5", "--grid", "seed=1"}),
                   "zerofleet: --set: seed is given by --grid, too; leave one of them out");
  std::remove(config.c_str());
}

TEST(CommandLine, PlanPrintsTable1) {
  const Ran text = RunWith({"plan", "--parameters", "7.5B", "--workers", "1,64"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, HasSubstr("workers  stage 0  stage 1  stage 2  stage 3\n"
                                  "  1            120      120      120      120\n"
                                  "  64           120     31.4     16.6     1.88\n"));
  const Ran json = RunWith({"plan", "--parameters", "1000", "--workers", "4", "--json"});
  EXPECT_THAT(json.out, HasSubstr("\"zero_stage\": 3"));
  EXPECT_THAT(json.out, HasSubstr("\"sent_elements_per_step\": 2250"));
}

}  // namespace
}  // namespace zerofleet::cli
