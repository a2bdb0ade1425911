// Compares the end of the text so far with the beginnings of the stop texts; see stop_texts.h.
#include "cli/commands/stop_texts.h"

#include <algorithm>
#include <utility>

namespace zerofleet::cli {

std::string StopTexts::Add(std::string_view text) {
  if (stopped_) return "";
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, "");
  }
  size_t may_begin = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > may_begin; --length) {
      if (held_.ends_with(std::string_view(stop).substr(0, length))) may_begin = length;
    }
  }
  std::string shown = held_.substr(0, held_.size() - may_begin);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopTexts::Finish() { return std::exchange(held_, ""); }

}  // namespace zerofleet::cli
