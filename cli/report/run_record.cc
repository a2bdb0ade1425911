// Collecting events, and the summary's tables; see run_record.h.
#include "cli/report/run_record.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/report/table.h"
#include "worker/memory/arena.h"

namespace zerofleet::cli {
namespace {

constexpr int kMostRanks = 16;  // rows of the memory table; the report has all ranks

int64_t Peak(const v1::RankReport& rank, const char* category) {
  const auto peak = [&](const auto& memory) {
    const auto found = memory.find(category);
    return found == memory.end() ? int64_t{0} : found->second.peak();
  };
  return peak(rank.device_memory()) + peak(rank.host_memory());
}

// The categories to show: all, except `ema` if no rank keeps averages.
std::vector<int> CategoriesOf(const v1::EndEvent& end) {
  std::vector<int> categories;
  for (int i = 0; i < memory::kCategories; ++i) {
    const bool averages = static_cast<memory::Category>(i) == memory::Category::kAverages;
    const auto uses = [](const v1::RankReport& rank) {
      return Peak(rank, memory::CategoryName(memory::Category::kAverages)) > 0;
    };
    if (!averages || std::any_of(end.ranks().begin(), end.ranks().end(), uses)) categories.push_back(i);
  }
  return categories;
}

std::string MemoryText(const v1::EndEvent& end, const Terminal& terminal, const PlannedMemory* planned) {
  std::vector<std::string> header = {"rank"};
  const std::vector<int> categories = CategoriesOf(end);
  for (const int i : categories) header.push_back(memory::CategoryName(static_cast<memory::Category>(i)));
  header.insert(header.end(), {"reserved", "process peak"});
  TextTable table(header);
  if (planned != nullptr) {
    std::vector<std::string> row = {"plan"};
    for (const int i : categories) row.push_back(HumanBytes(planned->bytes[static_cast<size_t>(i)]));
    row.push_back(HumanBytes(planned->reserved_bytes));
    row.push_back(planned->process_bytes > 0 ? HumanBytes(planned->process_bytes) : "");
    table.Add(row);
  }
  for (int r = 0; r < std::min(end.ranks_size(), kMostRanks); ++r) {
    const v1::RankReport& rank = end.ranks(r);
    std::vector<std::string> row = {absl::StrCat(rank.rank())};
    for (const int i : categories) {
      const int64_t bytes = Peak(rank, memory::CategoryName(static_cast<memory::Category>(i)));
      row.push_back(HumanBytes(bytes));
    }
    row.insert(row.end(), {HumanBytes(rank.device_reserved_bytes() + rank.host_reserved_bytes()),
                           HumanBytes(rank.rss_peak_bytes())});
    table.Add(row);
  }
  const int more = end.ranks_size() - kMostRanks;
  return absl::StrCat("\nPeak memory per rank\n", table.Render(2, terminal),
                      more > 0 ? absl::StrCat("  and ", more, " more ranks\n") : "");
}

// Sent bytes and bus bandwidth per operation on rank 0; the other ranks do the same.
std::string CollectivesText(const v1::EndEvent& end, const Terminal& terminal) {
  if (end.ranks_size() == 0 || end.ranks(0).collectives_size() == 0) return "";
  TextTable table({"collective", "group", "backend", "calls", "sent GB", "busbw GB/s"});
  for (const v1::CollectiveReport& each : end.ranks(0).collectives()) {
    // Bus bandwidth counts (n-1)/n of the gathered size, twice for an all-reduce: exactly the bytes that a rank sends.
    const double speed = each.seconds() > 0 ? static_cast<double>(each.bytes()) / each.seconds() / 1e9 : 0;
    table.Add({each.operation(), each.group(), each.backend(), absl::StrCat(each.calls()),
               absl::StrFormat("%.3f", static_cast<double>(each.bytes()) / 1e9), absl::StrFormat("%.2f", speed)});
  }
  return absl::StrCat("\nCollectives of rank 0\n", table.Render(2, terminal));
}

// "books 70.0% (0.32 epochs), code 30.0% (2.10 epochs)": each set's share of the samples that the run has taken of a
// mixture.
std::string SharesText(const google::protobuf::RepeatedPtrField<v1::SetShare>& shares) {
  double all = 0;
  for (const v1::SetShare& share : shares) all += static_cast<double>(share.samples());
  std::string text;
  for (const v1::SetShare& share : shares) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", share.path(),
                    absl::StrFormat(" %.1f%% (%.2f epochs)",
                                    100 * static_cast<double>(share.samples()) / std::max(all, 1.0), share.epochs()));
  }
  return text;
}

std::string HistogramName(const v1::HistogramEvent& histogram) {
  return absl::StrCat(histogram.values(), "/", histogram.tensor());
}

}  // namespace

std::string LossText(const v1::EvaluateEvent& evaluation) {
  std::string text = absl::StrFormat("%.4f", evaluation.loss());
  for (const v1::SetLoss& set : evaluation.sets()) {
    absl::StrAppend(&text, &set == &evaluation.sets(0) ? " (" : ", ", set.name(), absl::StrFormat(" %.4f", set.loss()));
  }
  return absl::StrCat(text, evaluation.sets().empty() ? "" : ")");
}

bool RunRecord::IsKnown(const v1::Event& event) const {
  switch (event.body_case()) {
    case v1::Event::kStart: return start.has_value() && event.start().generation() <= generation;
    case v1::Event::kStep:
      return last_step && event.step().generation() == last_step->generation() &&
             event.step().step() <= last_step->step();
    case v1::Event::kEvaluate: return evaluated_step >= event.evaluate().step();
    case v1::Event::kCheckpoint: return committed_step >= event.checkpoint().step();
    case v1::Event::kHistogram: {
      const auto found = histogram_steps.find(HistogramName(event.histogram()));
      return found != histogram_steps.end() && found->second >= event.histogram().step();
    }
    default: return false;
  }
}

bool RunRecord::Add(const v1::Event& event) {
  if (IsKnown(event)) return false;
  switch (event.body_case()) {
    case v1::Event::kStart:
      start = event.start();
      generation = start->generation();
      break;
    case v1::Event::kStep:
      generation = event.step().generation();
      if (first_step) {
        tokens += event.step().tokens();
        seconds += event.step().seconds();
        mfu_seconds += event.step().mfu() * event.step().seconds();
      } else {
        first_step = event.step();
      }
      last_step = event.step();
      break;
    case v1::Event::kEvaluate:
      last_evaluation = event.evaluate();
      evaluated_step = event.evaluate().step();
      break;
    case v1::Event::kCheckpoint:
      last_checkpoint = event.checkpoint();
      committed_step = event.checkpoint().step();
      break;
    case v1::Event::kSaveFailed: ++failed_saves; break;
    case v1::Event::kRollback:
      ++rollbacks;
      skipped_samples += event.rollback().skipped_samples();
      break;
    case v1::Event::kFailure: failure = event.failure(); break;
    case v1::Event::kEnd: end = event.end(); break;
    case v1::Event::kRecovery:
      ++recoveries;
      generation = event.recovery().generation();
      lost_steps += event.recovery().lost_steps();
      evaluated_step = std::min(evaluated_step, event.recovery().resumed_step());
      committed_step = std::min(committed_step, event.recovery().resumed_step());
      for (auto& [name, step] : histogram_steps) step = std::min(step, event.recovery().resumed_step());
      break;
    case v1::Event::kHistogram: histogram_steps[HistogramName(event.histogram())] = event.histogram().step(); break;
    case v1::Event::kLost:
    case v1::Event::kNotice:
    case v1::Event::BODY_NOT_SET: break;
  }
  return true;
}

std::string RunRecord::CheckpointText() const {
  if (last_checkpoint) {
    return absl::StrCat("; the last committed checkpoint is step ", last_checkpoint->step(), ", ",
                        last_checkpoint->path());
  }
  if (start && start->has_resumed_from()) {
    return absl::StrCat("; the last committed checkpoint is step ", start->resumed_from(), ", which it resumed from");
  }
  return "; no checkpoint was committed";
}

std::string SummaryText(const RunRecord& record, const Terminal& terminal, const PlannedMemory* planned) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    const std::string title = absl::StrFormat("  %-16s ", name);
    const int used = DisplayWidth(title);
    text += absl::StrCat(title, WrapText(value, terminal.columns(), used, used), "\n");
  };
  if (record.end)
    line("steps", absl::StrCat(record.end->step(), record.end->stopped() ? ", stopped before the last" : ""));
  if (record.first_step) {
    line("loss", absl::StrFormat("%.4f at step %d, %.4f at step %d", record.first_step->loss(),
                                 record.first_step->step(), record.last_step->loss(), record.last_step->step()));
  }
  if (record.last_evaluation) {
    line("validation loss",
         absl::StrFormat("%s at step %d", LossText(*record.last_evaluation), record.last_evaluation->step()));
  }
  if (record.seconds > 0) {
    line("tokens/s", HumanCount(static_cast<double>(record.tokens) / record.seconds));
    line("MFU", absl::StrFormat("%.1f%%", 100 * record.mfu_seconds / record.seconds));
  }
  if (record.end) {
    line("time", HumanSeconds(record.end->seconds()));
    line("tokens", HumanCount(static_cast<double>(record.end->tokens())));
    if (record.end->ranks_size() > 0 && !record.end->ranks(0).data().empty()) {
      line("data", SharesText(record.end->ranks(0).data()));
    }
  }
  if (record.recoveries > 0) {
    line("recoveries", absl::StrCat(record.recoveries, ", ", record.lost_steps, " steps done again"));
  }
  if (record.rollbacks > 0) {
    line("rollbacks", absl::StrCat(record.rollbacks, ", ", record.skipped_samples, " samples left out"));
  }
  if (record.failed_saves > 0) line("failed saves", absl::StrCat(record.failed_saves));
  if (record.last_checkpoint) {
    line("checkpoint", absl::StrCat(record.last_checkpoint->path(), ", ", HumanBytes(record.last_checkpoint->bytes())));
  }
  if (!record.end) return text;
  return absl::StrCat(text, MemoryText(*record.end, terminal, planned), CollectivesText(*record.end, terminal));
}

}  // namespace zerofleet::cli
