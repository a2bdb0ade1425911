// `zerofleet doctor`: another trainer's step, done again in fp32 on the CPU and compared tensor by tensor.
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/doctor.h"
#include "cli/commands/flag_checks.h"
#include "cli/config/config.h"
#include "cli/report/table.h"
#include "worker/device/device.h"

namespace zerofleet::cli {
namespace {

struct DoctorFlags {
  DoctorInput input;
  std::vector<std::string> sets;
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 1024u));
};

// The optimizer section that `sets` give, checked as part of an otherwise complete configuration.
absl::StatusOr<v1::OptimizerConfig> OptimizerOf(const std::vector<std::string>& sets) {
  std::vector<ConfigOverride> overrides = {{"doctor", "model.preset=gpt2-tiny"}, {"doctor", "data.train=[none]"}};
  for (const std::string& set : sets) {
    if (!absl::StartsWith(set, "optimizer.")) {
      return absl::InvalidArgumentError(absl::StrCat("--set: takes keys of optimizer alone, got ", set));
    }
    overrides.push_back({"--set", set});
  }
  ZF_ASSIGN_OR_RETURN(const v1::Config config, ParseConfig("", "doctor", overrides));
  return config.optimizer();
}

absl::StatusOr<int> RunDoctor(const DoctorFlags& flags, const Output& output) {
  DoctorInput input = flags.input;
  ZF_ASSIGN_OR_RETURN(input.optimizer, OptimizerOf(flags.sets));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({.kind = "cpu", .threads = flags.threads}));
  ZF_ASSIGN_OR_RETURN(const std::vector<DoctorFinding> findings, Examine(input, *device));
  TextTable table({"compared", "tensors", "beyond", "largest", "in"});
  std::string first;
  for (const DoctorFinding& finding : findings) {
    table.Add({finding.what, absl::StrCat(finding.compared), absl::StrCat(finding.beyond),
               absl::StrFormat("%.2g", finding.largest), finding.largest_name});
    if (first.empty()) first = finding.first;
  }
  output.out << table.Render(/*indent=*/0, output.out_terminal);
  if (!first.empty()) return absl::DataLossError(absl::StrCat(input.expect, ": ", first));
  output.out << "all within " << absl::StrFormat("%g", input.tolerance) << "\n";
  return 0;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Hold another trainer's step to this one's, in fp32, and name the first difference.");
  command
      ->add_option("--checkpoint", flags->input.checkpoint, "A Hugging Face directory with the weights before the step")
      ->required()
      ->type_name("DIR");
  command->add_option("--batch", flags->input.batch, "safetensors with input_ids, and labels if they differ from them")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--expect", flags->input.expect,
                   "safetensors with what the trainer has: loss, gradient.NAME, grad_norm, exp_avg.NAME, "
                   "exp_avg_sq.NAME, updated.NAME, each if it is to be compared")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--state", flags->input.state,
                   "safetensors with the optimizer's states before the step: step, exp_avg.NAME, exp_avg_sq.NAME; else "
                   "it is the first")
      ->type_name("FILE");
  Repeatable(command
                 ->add_option("--set", flags->sets,
                              "A key of the optimizer, such as optimizer.learning_rate=1e-3, the step's own rate")
                 ->type_name("KEY=VALUE"));
  command->add_flag("--decay-all", flags->input.decays_all,
                    "The weight decay applies to every tensor, biases and norms included");
  command
      ->add_option("--tolerance", flags->input.tolerance,
                   "Largest difference, as a part of the size of what is compared")
      ->check(NumberFrom(1e-9, 1))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Compute threads")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("all cores");
  command->footer(
      "Example:\n  zerofleet doctor --checkpoint gpt2 --batch batch.safetensors --expect step.safetensors \\\n"
      "    --set optimizer.learning_rate=5e-5 --set optimizer.weight_decay=0");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunDoctor(*flags, output); }; });
}

}  // namespace zerofleet::cli
