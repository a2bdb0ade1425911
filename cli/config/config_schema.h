// The configuration as a JSON schema (draft 7), for editors and for docs/config.schema.json.
//
// It is generated from the rows of the keys (keys.h), so that it cannot fall behind. It does not contain the rules
// about which keys go together.
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_SCHEMA_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_SCHEMA_H_

#include <string>

#include "nlohmann/json.hpp"

namespace zerofleet::cli {

nlohmann::ordered_json ConfigSchema();
std::string ConfigSchemaText();  // indented, ended by a newline

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_SCHEMA_H_
