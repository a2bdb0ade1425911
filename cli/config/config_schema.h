// The JSON schema of the configuration, for editors: keys and types from proto/zerofleet/v1/config.proto, limits and
// choices from config_check, descriptions from the table in config_schema.cc.
//
// docs/config.schema.json contains its text; `zerofleet config-schema > docs/config.schema.json` regenerates it.
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_SCHEMA_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_SCHEMA_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace zerofleet::cli {

// Every key that takes a value, by its dotted path, in the schema's order.
std::vector<std::string> ConfigKeys();

nlohmann::ordered_json ConfigSchema();
std::string ConfigSchemaText();  // indented, ended by a newline

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_SCHEMA_H_
