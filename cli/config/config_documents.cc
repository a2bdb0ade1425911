// The parser's own events, counted; see config_documents.h.
#include "cli/config/config_documents.h"

#include <sstream>
#include <utility>

#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace zerofleet::cli {
namespace {

// Looks at nothing but where a document's content starts.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override { started_ = true; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { See(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { See(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override { See(mark); }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    See(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    See(mark);
  }
  void OnMapEnd() override {}

  int last_line() const { return last_line_; }

 private:
  void See(const YAML::Mark& mark) {
    if (std::exchange(started_, false)) last_line_ = mark.line + 1;
  }

  bool started_ = false;  // a document has started, and its first content has not been seen
  int last_line_ = 1;
};

}  // namespace

std::optional<int> LineOfSecondDocument(const std::string& yaml) {
  std::istringstream input(yaml);
  YAML::Parser parser(input);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts)) return std::nullopt;
  if (!parser.HandleNextDocument(starts)) return std::nullopt;
  return starts.last_line();
}

}  // namespace zerofleet::cli
