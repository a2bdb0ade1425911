// Whether a text contains more than one YAML document: a configuration is exactly one.
//
// yaml-cpp's LoadAll never returns on text such as a lone comma, for which its parser starts documents without reading
// on.
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_DOCUMENTS_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_DOCUMENTS_H_

#include <optional>
#include <string>

namespace zerofleet::cli {

// The line (1-based) on which a second document starts, if there is one. Throws YAML::Exception for invalid YAML.
std::optional<int> LineOfSecondDocument(const std::string& yaml);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_DOCUMENTS_H_
