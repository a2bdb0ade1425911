// Token files, and batches of them in the order of a run; see data_benches.h.
#include "bench/data_benches.h"

#include <algorithm>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "bench/scratch_directory.h"
#include "worker/data/dataset.h"
#include "worker/data/mixture.h"

namespace zerofleet::bench {
namespace {

constexpr int64_t kVocab = 50257;   // GPT-2's vocabulary
constexpr int64_t kDocument = 500;  // tokens in a document, its end included
constexpr uint16_t kEnd = 1;
// A tokenizer with two tokens; the second one ends a text.
constexpr char kTokenizer[] =
    R"({"added_tokens":[{"id":1,"content":"<|endoftext|>","single_word":false,"lstrip":false,)"
    R"("rstrip":false,"normalized":false,"special":true}],)"
    R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";

absl::Status WriteTokens(const std::string& path, int64_t count) {
  std::vector<uint16_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    tokens[i] = (i + 1) % kDocument == 0 ? kEnd : static_cast<uint16_t>(2 + i * 7919 % (kVocab - 2));
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  return file->Write(std::as_bytes(std::span(tokens)));
}

// Seconds of the fastest round; a round calls `read` once for each batch.
template <typename Read>
absl::StatusOr<double> BestSeconds(int rounds, int64_t batches, Read read) {
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = Clock::Real().MonotonicSeconds();
    for (int64_t batch = 0; batch < batches; ++batch) ZF_RETURN_IF_ERROR(read(batch));
    const double seconds = Clock::Real().MonotonicSeconds() - start;
    best = round == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

struct DataCase {
  const char* order;
  std::vector<std::string> files;
  std::vector<int64_t> weights;
  bool packing;
};

absl::StatusOr<DataRate> Rate(const DataCase& each, const std::string& tokenizer, const DataBenchOptions& options,
                              int rounds) {
  v1::DataConfig config;
  config.set_format("tokens_u16");
  config.set_tokenizer(tokenizer);
  config.set_packing(each.packing);
  std::vector<data::DataPath> paths;
  for (const std::string& file : each.files) paths.push_back({"bench data", file});
  data::TextTokenizer text(config, {});
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<data::Dataset> dataset,
                      data::Dataset::Open(config, paths, options.context, kVocab, text));
  const data::Mixture order(/*seed=*/1, dataset->samples_by_path(), each.weights);
  const int64_t count = options.micro_sequences, batches = dataset->samples() / count;
  std::vector<int32_t> into(static_cast<size_t>(data::ArraysPerToken(config) * count * options.context));
  ZF_ASSIGN_OR_RETURN(const double seconds, BestSeconds(rounds, batches, [&](int64_t batch) {
                        const auto sample = [&](int64_t i) { return order.Sample(batch * count + i); };
                        return dataset->ReadBatch(count, sample, into.data());
                      }));
  std::vector<std::unique_ptr<data::TokenFile>> files;
  for (const std::string& path : each.files) {
    ZF_ASSIGN_OR_RETURN(files.emplace_back(), data::TokenFile::Open(path, /*keep_open=*/true));
  }
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(into)).first((options.context + 1) * 2);
  ZF_ASSIGN_OR_RETURN(const double reading, BestSeconds(rounds, batches * count, [&](int64_t position) {
                        const int64_t sample = order.Sample(position);
                        const size_t file = sample < dataset->samples_by_path()[0] ? 0 : 1;
                        const int64_t first = file == 0 ? 0 : dataset->samples_by_path()[0];
                        return files[file]->Read((sample - first) * options.context * 2, bytes);
                      }));
  const auto tokens = static_cast<double>(batches * count * options.context);
  return DataRate{each.order, tokens / seconds, tokens / reading};
}

}  // namespace

absl::StatusOr<std::vector<DataRate>> BenchData(const DataBenchOptions& options, int rounds) {
  const int64_t least = 4 * (options.micro_sequences * options.context + 1);
  if (options.tokens < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("data bench: must be at least ", least, " tokens, got ", options.tokens));
  }
  const ScratchDirectory scratch(options.directory);
  ZF_RETURN_IF_ERROR(scratch.Create("data bench"));
  const std::string tokenizer = scratch.Path("tokenizer.json"), first = scratch.Path("first.bin"),
                    second = scratch.Path("second.bin");
  ZF_RETURN_IF_ERROR(WriteFileAtomically(tokenizer, kTokenizer));
  ZF_RETURN_IF_ERROR(WriteTokens(first, options.tokens / 2));
  ZF_RETURN_IF_ERROR(WriteTokens(second, options.tokens - options.tokens / 2));
  std::vector<DataRate> rates;
  for (const DataCase& each :
       {DataCase{"one set", {first}, {}, false}, DataCase{"two sets", {first, second}, {7, 3}, false},
        DataCase{"packed documents", {first}, {}, true}}) {
    ZF_ASSIGN_OR_RETURN(rates.emplace_back(), Rate(each, tokenizer, options, rounds));
  }
  return rates;
}

}  // namespace zerofleet::bench
