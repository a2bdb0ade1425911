// Fuzzes the safetensors header: any bytes as a file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "worker/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet;
  using namespace zerofleet::checkpoint;
  std::string_view file(reinterpret_cast<const char*>(data), size);
  const int64_t file_bytes = static_cast<int64_t>(size);
  absl::StatusOr<int64_t> length = ParseSafetensorsLength(file, file_bytes);
  if (!length.ok()) return 0;
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(file.substr(8, *length), file_bytes);
  if (!header.ok()) return 0;
  // Accepted tensors lie within the file.
  int64_t next = 0;
  for (const SafetensorsTensor& tensor : header->tensors) {
    ZF_CHECK(tensor.begin == next && tensor.end >= next);
    next = tensor.end;
  }
  ZF_CHECK(header->data_begin + next == file_bytes);
  return 0;
}
