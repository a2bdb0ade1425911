// Fuzzes chat templates: any bytes as the template, run on a short chat within small limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "worker/text/jinja_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace jinja = zerofleet::text::jinja;
  const auto body = jinja::Template::Parse({reinterpret_cast<const char*>(data), size});
  if (!body.ok()) return 0;
  static const jinja::Value messages = jinja::Value::Of(nlohmann::ordered_json::parse(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "ü"}]},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]}])"));
  const jinja::Limits limits{.steps = 20000, .output_bytes = 1 << 16};
  const auto text = body->Render({{"messages", messages}, {"bos_token", jinja::Value::Of("<s>")}}, /*now=*/0, limits);
  if (text.ok()) ZF_CHECK(static_cast<int64_t>(text->size()) <= limits.output_bytes);
  return 0;
}
