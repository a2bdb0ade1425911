// The card's header, tables and text; see model_card.h.
#include "worker/checkpoint/model_card.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/cut_text.h"
#include "base/units.h"
#include "coordinator/batch_schedule.h"

namespace zerofleet::checkpoint {
namespace {

constexpr int kMostFilesNamed = 8;

// A name from outside as a cell of a table: on one line, without characters that Markdown or HTML would interpret.
std::string Cell(const std::string& text) {
  return absl::StrReplaceAll(absl::Utf8SafeCEscape(CutText(text, 200)),
                             {{"|", "\\|"}, {"<", "&lt;"}, {"`", "'"}, {"[", "\\["}});
}

std::string ModelFacts(const v1::ModelConfig& model) {
  std::string heads = absl::StrCat(model.heads(), " heads");
  if (model.kv_heads() != model.heads()) absl::StrAppend(&heads, " (", model.kv_heads(), " of keys and values)");
  return absl::StrCat(model.family(), ": ", model.layers(), " layers, hidden size ", model.hidden(), ", ", heads,
                      ", context ", model.context(), ", vocabulary ", model.vocab());
}

std::string OptimizerFacts(const v1::OptimizerConfig& optimizer) {
  std::string facts = absl::StrCat(optimizer.name(), ", learning rate ", optimizer.learning_rate(), ", weight decay ",
                                   optimizer.weight_decay());
  if (optimizer.grad_clip() > 0) absl::StrAppend(&facts, ", gradients clipped at a norm of ", optimizer.grad_clip());
  return facts;
}

// The last part of a path.
std::string NameOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return Cell(path.substr(path.rfind('/') + 1));
}

std::string FileNames(const v1::DataFiles& data) {
  std::vector<std::string> names;
  const int named = std::min(data.files_size(), kMostFilesNamed);
  for (int i = 0; i < named; ++i) names.push_back(NameOf(data.files(i).path()));
  const int64_t more = data.files_size() - named + data.more_files();
  if (more > 0) names.push_back(absl::StrCat(more, " more"));
  return absl::StrJoin(names, ", ");
}

}  // namespace

std::string ModelCardText(const v1::CheckpointManifest& manifest, const model::ModelSpec& spec, device::DType dtype,
                          WeightsOf which) {
  const v1::Config& config = manifest.config();
  const int64_t parameters = spec.whole_base_parameters();
  std::string card =
      absl::StrCat("---\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n\n# ", config.model().family(),
                   ", ", HumanCount(static_cast<double>(parameters)), " parameters\n\nThe ",
                   which == WeightsOf::kAverage ? "average (ema) of the weights at" : "weights of", " step ",
                   manifest.step(), ", written in ", device::DTypeName(dtype), " by Zerofleet.\n\n| | |\n|---|---|\n");
  const auto row = [&card](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&card, "| ", name, " | ", value, " |\n");
  };
  row("model", ModelFacts(config.model()));
  row("parameters", absl::StrCat(parameters));
  if (manifest.step() > 0) {
    const double tokens = coordinator::SequencesInAll(config.batch(), static_cast<double>(manifest.step())) *
                          static_cast<double>(config.model().context());
    row("trained for", absl::StrCat(manifest.step(), " steps of ", coordinator::BatchText(config.batch()),
                                    " sequences, ", HumanCount(tokens), " tokens"));
    row("optimizer", OptimizerFacts(config.optimizer()));
    row("precision", config.precision());
    row("seed", absl::StrCat(config.seed()));
    row("data", FileNames(manifest.data().train()));
    row("started from", config.init_from().empty() ? "random weights" : NameOf(config.init_from()));
    if (manifest.best().step() > 0) {
      row("lowest validation loss", absl::StrCat(manifest.best().loss(), " at step ", manifest.best().step()));
    }
  }
  row("Zerofleet", Cell(manifest.writer_version()));
  return card;
}

}  // namespace zerofleet::checkpoint
