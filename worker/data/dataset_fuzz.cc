// Fuzzes token files: the first bytes choose format, context and vocabulary, the rest is the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "worker/data/dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet;
  if (size < 3) return 0;
  static const char* const kFormats[] = {"auto", "text", "tokens_u16", "tokens_u32"};
  v1::DataConfig config;
  config.set_format(kFormats[data[0] % 4]);
  config.set_tokenizer("bytes");
  const int64_t context = 1 + data[1], vocab = 1 + data[2];

  int descriptor = memfd_create("tokens", MFD_CLOEXEC);
  ZF_CHECK(descriptor >= 0);
  ZF_CHECK(write(descriptor, data + 3, size - 3) == static_cast<ssize_t>(size - 3));
  auto dataset = Dataset::Open(config, {"/proc/self/fd/" + std::to_string(descriptor)}, context, vocab);
  if (dataset.ok()) {
    std::vector<int32_t> tokens(context + 1);
    for (int64_t sample = 0; sample < (*dataset)->samples(); ++sample) {
      if (!(*dataset)->Read(sample, tokens).ok()) continue;
      for (int32_t token : tokens) ZF_CHECK(token >= 0 && token < vocab);
    }
  }
  close(descriptor);
  return 0;
}
