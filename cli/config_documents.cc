// The parser's own events, counted; see config_documents.h.
#include "cli/config_documents.h"

#include <sstream>

#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace zerofleet {
namespace {

// Looks at nothing but where documents start.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { last_line_ = mark.line + 1; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  int last_line() const { return last_line_; }

 private:
  int last_line_ = 0;
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

}  // namespace zerofleet
