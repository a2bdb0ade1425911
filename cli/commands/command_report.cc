// `zerofleet report`: runs that have written a report, in the terminal or as a page.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/input_files.h"
#include "cli/report/csv.h"
#include "cli/report/run_file.h"
#include "cli/report/run_text.h"
#include "cli/report/tensorboard.h"

namespace zerofleet::cli {
namespace {

constexpr char kStandardOutput[] = "-";

struct ReportFlags {
  std::vector<std::string> files;
  std::string html, tensorboard, csv;
  bool compare = false;
};

// Each run has a directory of its own.
absl::StatusOr<int> WriteTensorBoard(const std::vector<RunFile>& runs, const std::string& directory,
                                     const Output& output) {
  std::vector<std::string> reports;
  for (const RunFile& run : runs) reports.push_back(run.name);
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, RunDirectories(reports));
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFile& run = runs[i];
    const std::string to = JoinPath(directory, names[i]);
    ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBoardWriter> writer,
                        TensorBoardWriter::Open(to, run.steps.begin()->second.unix_seconds));
    writer->Write(run);
    ZF_RETURN_IF_ERROR(writer->status());
    output.out << "wrote " << to << "\n";
  }
  return 0;
}

// Writes the text that `flag` asks for to a file, or to standard output for "-".
absl::StatusOr<int> WriteText(const char* flag, const std::string& file, const std::string& text,
                              const Output& output) {
  if (file == kStandardOutput) {
    output.out << text;
    return 0;
  }
  const absl::Status written = WriteResultFile(file, text);
  if (!written.ok()) return absl::Status(written.code(), absl::StrCat(flag, ": ", written.message()));
  output.out << "wrote " << file << "\n";
  return 0;
}

absl::StatusOr<int> RunReport(const ReportFlags& flags, const Output& output) {
  if (flags.compare && flags.files.size() < 2) {
    return absl::InvalidArgumentError("--compare: is of two runs or more, got one report");
  }
  std::vector<InputFile> inputs;
  for (const std::string& file : flags.files) inputs.push_back({file, "one of the reports"});
  ZF_RETURN_IF_ERROR(CheckNoInput("--csv", flags.csv, inputs));
  ZF_RETURN_IF_ERROR(CheckNoInput("--html", flags.html, inputs));
  std::vector<RunFile> runs;
  for (const std::string& file : flags.files) {
    ZF_ASSIGN_OR_RETURN(RunFile run, ReadRunFile(file));
    runs.push_back(std::move(run));
  }
  if (!flags.tensorboard.empty()) return WriteTensorBoard(runs, flags.tensorboard, output);
  if (!flags.csv.empty()) return WriteText("--csv", flags.csv, RunsCsv(runs), output);
  if (!flags.html.empty()) return WriteText("--html", flags.html, RunsPage(runs), output);
  output.out << RunsText(runs, flags.compare, output.out_terminal);
  return 0;
}

}  // namespace

void AddReportCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", "Show what runs have reported: figures, curves, differences.");
  command->add_option("RUN", flags->files, "Files that train --report has written")
      ->type_name("FILE...")
      ->required()
      ->expected(1, -1);
  command
      ->add_option("--html", flags->html,
                   "Write one page with curves, memory, collectives and a time line; - for standard output")
      ->type_name("FILE");
  command->add_option("--tensorboard", flags->tensorboard, "Write event files for TensorBoard, a directory per run")
      ->type_name("DIR")
      ->excludes("--html");
  command
      ->add_option("--csv", flags->csv, "Write steps and evaluations as comma-separated values; - for standard output")
      ->type_name("FILE")
      ->excludes("--html")
      ->excludes("--tensorboard");
  command->add_flag("--compare", flags->compare, "Also say which keys differ, and from which step on the bits do");
  command->footer("Example:\n  zerofleet report run.jsonl\n  zerofleet report a.jsonl b.jsonl --compare");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunReport(*flags, output); }; });
}

}  // namespace zerofleet::cli
