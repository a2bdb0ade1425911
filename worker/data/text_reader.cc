// zlib and libzstd behind one interface; see text_reader.h.
#include "worker/data/text_reader.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::data {
namespace {

constexpr size_t kInputBytes = 256 * 1024;

class PlainReader : public TextReader {
 public:
  explicit PlainReader(const TokenFile& file) : TextReader(file) {}

 private:
  absl::StatusOr<size_t> ReadSome(std::span<char> into) override { return ReadFile(into); }
};

// Reads gzip, also with several members one behind another.
class GzipReader : public TextReader {
 public:
  explicit GzipReader(const TokenFile& file) : TextReader(file), input_(kInputBytes) {
    constexpr int kGzip = 16;  // a gzip header, and no other
    ZF_CHECK(inflateInit2(&stream_, MAX_WBITS + kGzip) == Z_OK);
  }
  ~GzipReader() override { inflateEnd(&stream_); }

 private:
  absl::StatusOr<size_t> ReadSome(std::span<char> into) override {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    while (stream_.avail_out == into.size()) {
      if (stream_.avail_in == 0) {
        ZF_ASSIGN_OR_RETURN(const size_t got, ReadFile(input_));
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(got);
      }
      if (between_) {
        if (stream_.avail_in == 0) break;
        ZF_CHECK(inflateReset(&stream_) == Z_OK);
        between_ = false;
      }
      // Even without input there may be output that had no room before.
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_BUF_ERROR) return Damaged("ends in the middle");
      if (result != Z_OK && result != Z_STREAM_END) return Damaged("is damaged");
      between_ = result == Z_STREAM_END;
    }
    return into.size() - stream_.avail_out;
  }

  std::vector<char> input_;
  z_stream stream_ = {};
  bool between_ = false;  // between two members
};

class ZstdReader : public TextReader {
 public:
  explicit ZstdReader(const TokenFile& file) : TextReader(file), input_(kInputBytes), stream_(ZSTD_createDStream()) {
    ZF_CHECK(stream_ != nullptr);
  }
  ~ZstdReader() override { ZSTD_freeDStream(stream_); }

 private:
  absl::StatusOr<size_t> ReadSome(std::span<char> into) override {
    ZSTD_outBuffer out = {into.data(), into.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        ZF_ASSIGN_OR_RETURN(const size_t got, ReadFile(input_));
        if (got == 0 && expected_ == 0) return size_t{0};
        // The rest of a frame may need no more input.
        if (got == 0 && flushed_) return Damaged("ends in the middle");
        in_ = {input_.data(), got, 0};
      }
      const size_t before = in_.pos;
      expected_ = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(expected_)) return Damaged("is damaged");
      flushed_ = out.pos == 0 && in_.pos == before;
    }
    return out.pos;
  }

  std::vector<char> input_;
  ZSTD_DStream* const stream_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  size_t expected_ = 0;  // 0: a frame has ended
  bool flushed_ = false;
};

}  // namespace

std::unique_ptr<TextReader> TextReader::Open(const TokenFile& file, Compression compression) {
  if (compression == Compression::kGzip) return std::make_unique<GzipReader>(file);
  if (compression == Compression::kZstd) return std::make_unique<ZstdReader>(file);
  return std::make_unique<PlainReader>(file);
}

absl::StatusOr<size_t> TextReader::Read(std::span<char> into) {
  size_t done = 0;
  while (done < into.size()) {
    ZF_ASSIGN_OR_RETURN(const size_t got, ReadSome(into.subspan(done)));
    if (got == 0) break;
    done += got;
  }
  return done;
}

absl::StatusOr<size_t> TextReader::ReadFile(std::span<char> into) {
  const auto left = static_cast<size_t>(file_.bytes() - consumed_);
  into = into.first(std::min(into.size(), left));
  if (into.empty()) return size_t{0};
  ZF_RETURN_IF_ERROR(file_.Read(consumed_, std::as_writable_bytes(into)));
  consumed_ += static_cast<int64_t>(into.size());
  return into.size();
}

absl::Status TextReader::Damaged(const char* what) const {
  return absl::DataLossError(absl::StrCat(file_.path(), ": the compressed data ", what));
}

}  // namespace zerofleet::data
