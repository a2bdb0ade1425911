// `zerofleet checkpoint`: list, verify, export and import.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/commands/checkpoint_path.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/config/config.h"
#include "cli/report/table.h"
#include "nlohmann/json.hpp"
#include "proto/json.h"
#include "services/common/build_info.h"
#include "worker/checkpoint/adapters.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/gguf_export.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/device/dtype.h"

namespace zerofleet::cli {
namespace {

int64_t TotalBytes(const v1::CheckpointManifest& manifest) {
  int64_t bytes = 0;
  for (const v1::ShardFile& file : manifest.files()) bytes += file.bytes();
  return bytes;
}

std::string CommittedText(const v1::CheckpointManifest& manifest) {
  return absl::FormatTime(absl::RFC3339_sec, absl::FromUnixSeconds(manifest.committed_unix_seconds()),
                          absl::UTCTimeZone());
}

absl::StatusOr<int> RunList(const std::string& dir, bool json, const Output& output) {
  if (!IsDirectory(dir)) return absl::NotFoundError(absl::StrCat(dir, ": no such directory"));
  std::vector<checkpoint::CheckpointProblem> problems;
  ZF_ASSIGN_OR_RETURN(const std::vector<checkpoint::CommittedCheckpoint> committed,
                      checkpoint::ListCheckpoints(dir, &problems));
  if (committed.empty()) ZF_RETURN_IF_ERROR(CheckNoStepDirectory(dir));
  if (json) {
    nlohmann::ordered_json document = {{"checkpoints", nlohmann::ordered_json::array()},
                                       {"problems", nlohmann::ordered_json::array()}};
    for (const checkpoint::CommittedCheckpoint& each : committed) {
      document["checkpoints"].push_back({{"step", each.step},
                                         {"path", each.path},
                                         {"bytes", TotalBytes(each.manifest)},
                                         {"parameters", checkpoint::ManifestElements(each.manifest)},
                                         {"world_size", each.manifest.world_size()},
                                         {"zero_stage", each.manifest.zero_stage()},
                                         {"generation", each.manifest.generation()},
                                         {"committed_unix_seconds", each.manifest.committed_unix_seconds()}});
    }
    for (const checkpoint::CheckpointProblem& each : problems) {
      document["problems"].push_back({{"path", each.path}, {"reason", each.reason}});
    }
    output.out << DumpJson(document, 2) << "\n";
    return 0;
  }
  TextTable table({"path", "step", "size", "parameters", "written by", "committed"});
  for (const checkpoint::CommittedCheckpoint& each : committed) {
    table.Add({each.path, absl::StrCat(each.step), HumanBytes(TotalBytes(each.manifest)),
               HumanCount(static_cast<double>(checkpoint::ManifestElements(each.manifest))),
               absl::StrCat(CountText(each.manifest.world_size(), "worker"), ", stage ", each.manifest.zero_stage()),
               CommittedText(each.manifest)});
  }
  output.out << (committed.empty() ? absl::StrCat("no committed checkpoint in ", dir, "\n")
                                   : table.Render(0, output.out_terminal));
  for (const checkpoint::CheckpointProblem& each : problems)
    output.out << each.path << ": unusable: " << each.reason << "\n";
  return 0;
}

absl::StatusOr<int> RunVerify(const std::string& path, const Output& output) {
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(path));
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, checkpoint::ReadManifest(step_dir));
  ZF_RETURN_IF_ERROR(checkpoint::VerifyCheckpoint(step_dir));
  output.out << step_dir << ": valid: step " << manifest.step() << ", " << CountText(manifest.files_size(), "file")
             << ", " << HumanBytes(TotalBytes(manifest)) << "\n";
  return 0;
}

// The type called `name`, which the flag's check has accepted.
device::DType DTypeNamed(const std::string& name) {
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kF16}) {
    if (name == device::DTypeName(dtype)) return dtype;
  }
  return device::DType::kF32;
}

absl::StatusOr<int> RunExport(const std::string& path, const std::string& to, device::DType dtype, bool adapters,
                              checkpoint::WeightsOf which, const Output& output) {
  const bool gguf = absl::EndsWithIgnoreCase(to, ".gguf");
  if (adapters && gguf) {
    return absl::InvalidArgumentError(
        absl::StrCat("OUT: ", to, ": adapters are written to a directory, not a GGUF file"));
  }
  ZF_ASSIGN_OR_RETURN(const std::string step_dir, ResolveCheckpoint(path, &output.err));
  ZF_RETURN_IF_ERROR(CheckOutsideCheckpoint(step_dir, to));
  if (adapters) {
    ZF_RETURN_IF_ERROR(checkpoint::ExportAdapters(step_dir, to, dtype, which));
    output.out << "wrote " << JoinPath(to, checkpoint::kAdapterWeightsName) << " and "
               << JoinPath(to, checkpoint::kAdapterConfigName) << "\n";
    return 0;
  }
  if (gguf) {
    ZF_RETURN_IF_ERROR(checkpoint::ExportGguf(step_dir, to, dtype, which));
    output.out << "wrote " << to << "\n";
    return 0;
  }
  ZF_RETURN_IF_ERROR(checkpoint::ExportHuggingFace(step_dir, to, dtype, which));
  output.out << "wrote " << JoinPath(to, "model.safetensors") << " and " << JoinPath(to, "config.json") << "\n";
  return 0;
}

absl::StatusOr<int> RunImport(const std::string& hf_dir, const std::string& step_dir, const std::string& base,
                              const Output& output) {
  ZF_ASSIGN_OR_RETURN(v1::Config defaults, DefaultConfig("gpt2-124m"));
  defaults.mutable_model()->clear_preset();
  const checkpoint::ImportStamp stamp = {services::GetBuildInfo().version, absl::ToUnixSeconds(absl::Now())};
  const auto has = [&](const char* name) { return FileExists(JoinPath(hf_dir, name)); };
  if (base.empty() && has(checkpoint::kAdapterConfigName) && !has(checkpoint::kHuggingFaceConfigName)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--base: is missing; ", hf_dir, " holds low-rank adapters, so name the step directory that they go with"));
  }
  if (base.empty()) {
    ZF_RETURN_IF_ERROR(checkpoint::ImportModel(hf_dir, step_dir, defaults, stamp));
  } else {
    ZF_ASSIGN_OR_RETURN(const std::string base_dir, ResolveCheckpoint(base, &output.err));
    ZF_RETURN_IF_ERROR(checkpoint::ImportAdapters(hf_dir, base_dir, step_dir, stamp));
  }
  output.out << "wrote " << step_dir << "; start from it with: zerofleet train CONFIG.yaml --set init_from=" << step_dir
             << "\n";
  return 0;
}

}  // namespace

void AddCheckpointCommand(CLI::App& app, CommandBody& body) {
  struct Flags {
    std::string from, to, base;
    bool json = false, adapters = false, ema = false;
    std::string dtype = device::DTypeName(device::DType::kF32);
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("checkpoint", "List, verify, export and import checkpoints.");
  command->require_subcommand(1);
  command->footer("Example:\n  zerofleet checkpoint list checkpoints");

  CLI::App* list = command->add_subcommand("list", "Show the committed checkpoints of a directory, newest first.");
  list->add_option("DIR", flags->from, "A run's checkpoint.dir")->type_name("DIR")->required();
  list->add_flag("--json", flags->json, "Print one JSON document");
  list->footer("Example:\n  zerofleet checkpoint list checkpoints --json");
  list->callback(
      [flags, &body] { body = [flags](const Output& output) { return RunList(flags->from, flags->json, output); }; });

  CLI::App* verify = command->add_subcommand("verify", "Read every byte of a checkpoint and check its digests.");
  verify->add_option("STEP_DIR", flags->from, "A step directory, or a run's checkpoint.dir for its newest")
      ->type_name("DIR")
      ->required();
  verify->footer("Example:\n  zerofleet checkpoint verify checkpoints/step-00000100");
  verify->callback([flags, &body] { body = [flags](const Output& output) { return RunVerify(flags->from, output); }; });

  CLI::App* to_hf =
      command->add_subcommand("export", "Write a checkpoint's weights as transformers or llama.cpp reads them.");
  to_hf->add_option("STEP_DIR", flags->from, "A step directory, or a run's checkpoint.dir for its newest")
      ->type_name("DIR")
      ->required();
  to_hf->add_option("OUT", flags->to, "A directory for model.safetensors and config.json, or a *.gguf file")
      ->type_name("PATH")
      ->check(InDirectory())
      ->required();
  to_hf->add_option("--dtype", flags->dtype, "Of the weights: fp32, bf16 or fp16; fp32 without")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->type_name("TYPE");
  to_hf->add_flag("--adapters", flags->adapters,
                  "Low-rank adapters alone, as PEFT reads them; without it they are merged into the weights");
  to_hf->add_flag("--ema", flags->ema, "The average of the weights in place of those of the step");
  to_hf->footer("Example:\n  zerofleet checkpoint export checkpoints/step-00000100 gpt2-mine");
  to_hf->callback([flags, &body] {
    body = [flags](const Output& output) {
      return RunExport(flags->from, flags->to, DTypeNamed(flags->dtype), flags->adapters,
                       flags->ema ? checkpoint::WeightsOf::kAverage : checkpoint::WeightsOf::kStep, output);
    };
  });

  CLI::App* from_hf =
      command->add_subcommand("import", "Turn a Hugging Face folder or a GGUF file into a checkpoint at step 0.");
  from_hf->add_option("FROM", flags->from, "A directory with model.safetensors and config.json, or a *.gguf file")
      ->type_name("DIR")
      ->required();
  from_hf->add_option("STEP_DIR", flags->to, "The step directory to write, such as imported/step-00000000")
      ->type_name("DIR")
      ->required();
  from_hf
      ->add_option("--base", flags->base, "For a PEFT directory of low-rank adapters: the step directory they go with")
      ->type_name("DIR");
  from_hf->footer("Example:\n  zerofleet checkpoint import gpt2 imported/step-00000000");
  from_hf->callback([flags, &body] {
    body = [flags](const Output& output) { return RunImport(flags->from, flags->to, flags->base, output); };
  });
}

}  // namespace zerofleet::cli
