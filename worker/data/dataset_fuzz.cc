// Fuzzes data files: the first bytes choose format, context and vocabulary, the rest is the file. The same bytes are
// also taken as a Megatron index and as a list of checked files.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "worker/data/checked_files.h"
#include "worker/data/dataset.h"
#include "worker/data/format.h"
#include "worker/data/megatron_index.h"

namespace {
using namespace zerofleet;
using namespace zerofleet::data;

// Tries every header with every name, without a file, so that the size may be anything.
void Recognise(const std::string& format, std::string_view bytes, int64_t file_bytes) {
  const std::string_view head = bytes.substr(0, kFormatHeadBytes);
  for (const char* path : {"a.bin", "a.idx", "a.u32", "a.txt"}) {
    for (const std::string_view index_head : {std::string_view(), head}) {
      const absl::StatusOr<TokenFormat> found = RecogniseFormat({path, file_bytes, head, index_head}, format);
      if (!found.ok()) continue;
      ZF_CHECK(found->token_bytes == 1 || found->token_bytes == 2 || found->token_bytes == 4);
      ZF_CHECK(found->data_offset + found->tokens * found->token_bytes == file_bytes);
    }
  }
}

void OpenAndRead(const v1::DataConfig& config, const std::string& path, int64_t context, int64_t vocab) {
  TextTokenizer text(config, {});
  auto dataset = Dataset::Open(config, {{"data", path}}, context, vocab, text);
  if (!dataset.ok()) return;
  CheckedFiles nowhere = CheckedFiles::Load("");
  const absl::StatusOr<int64_t> checked = (*dataset)->CheckIds(1, nowhere, nullptr);
  std::vector<int32_t> tokens(context + 1);
  bool all = true;
  for (int64_t sample = 0; sample < (*dataset)->samples(); ++sample) {
    const bool read = (*dataset)->Read(sample, tokens).ok();
    all = all && read;
    if (!read) continue;
    for (int32_t token : tokens) ZF_CHECK(token >= 0 && token < vocab);
  }
  ZF_CHECK(all == checked.ok());  // the check before a run and the one while reading agree
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  static const char* const kFormats[] = {"auto", "text", "tokens_u16", "tokens_u32"};
  v1::DataConfig config;
  config.set_format(kFormats[data[0] % 4]);
  config.set_tokenizer("bytes");
  const int64_t context = 1 + data[1], vocab = 1 + data[2] + 256 * data[3];

  int descriptor = memfd_create("tokens", MFD_CLOEXEC);
  ZF_CHECK(descriptor >= 0);
  ZF_CHECK(write(descriptor, data + 4, size - 4) == static_cast<ssize_t>(size - 4));
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  OpenAndRead(config, path, context, vocab);
  v1::DataConfig trained = config;
  trained.add_train(data[1] % 2 == 0 ? "a.bin" : "a.txt");
  (void)OpenForModel(trained, {"--data", path}, context, vocab);

  (void)ReadMegatronIndex(**TokenFile::Open(path, /*keep_open=*/true), 2 * context);
  close(descriptor);

  const std::string_view bytes(reinterpret_cast<const char*>(data + 4), size - 4);
  Recognise(config.format(), bytes, static_cast<int64_t>(bytes.size()));
  Recognise(config.format(), bytes, static_cast<int64_t>(bytes.size()) << (data[1] % 40));
  for (const std::string& key : ParseCheckedFiles(bytes)) ZF_CHECK(key.size() == 32);
  return 0;
}
