// See matmul.h.
//
// Sizes were chosen by measurement: oneDNN packs its operands again for every call, so fewer and larger tiles win, also
// where they and their panels (0.5 + 0.75 + 1.5 MiB) leave a core's second-level cache.
#include "worker/device/cpu/matmul.h"

#include <dnnl.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cpu/bf16_dots.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul_primitive.h"

// From GCC's OpenMP library, which oneDNN is built on; declared here since only one compiler ships its header.
extern "C" void omp_set_num_threads(int threads);

namespace zerofleet::device {
namespace {

constexpr OutputTile kTile = {512, 768};
constexpr int64_t kPanelDepth = 256;

// A product of fewer tiles would be the work of few threads: its columns are cut further.
constexpr int64_t kFewTiles = 4, kFewestColumns = 384;

// A tile of fp32 results that are not added to others, which oneDNN writes more than once: a buffer of it stays in a
// core's second-level cache, where rows of a wide matrix would not.
constexpr OutputTile kBufferedTile = {256, 768};

// Weights' gradients: how many columns of dy and of x are packed at a time, and how many tokens are added up before
// they are added to the gradient. A tile has any number of rows, for which x is packed once; a packed chunk of x stays
// in a core's second-level cache.
constexpr OutputTile kDotsBlock = {384, 768};
constexpr int64_t kDotsDepth = 1024;

// The blocks of a gradient to be rounded whose sums over kDotsDepth tokens wait in a buffer for those over the rest; x
// is packed again for each so many blocks.
constexpr int64_t kDotsBlocksWaiting = 2;

// One thread's fp32 copies of the tile in progress; allocated once, at the thread's first conversion.
struct ConversionBuffers {
  float a[kTile.m * kPanelDepth];
  float b[kTile.n * kPanelDepth];
  float c[kTile.m * kTile.n];
};

ConversionBuffers& ThreadBuffers() {
  thread_local const std::unique_ptr<ConversionBuffers> buffers = std::make_unique<ConversionBuffers>();
  return *buffers;
}

float* BufferedTile() {
  thread_local const std::unique_ptr<float[]> buffer = std::make_unique<float[]>(kBufferedTile.m * kBufferedTile.n);
  return buffer.get();
}

uint32_t* DotsBuffer() {
  constexpr int64_t kWords = (kDotsBlock.m + kDotsBlock.n) * kDotsDepth / 2;
  thread_local const std::unique_ptr<uint32_t[]> buffer = std::make_unique<uint32_t[]>(kWords);
  return buffer.get();
}

// Memory that is not touched before it is used.
float* WaitingSums() {
  thread_local const std::unique_ptr<float[]> buffer =
      std::make_unique_for_overwrite<float[]>(kDotsBlocksWaiting * kDotsBlock.m * kDotsBlock.n);
  return buffer.get();
}

// The length of an even cut of `size` into blocks of at most `largest`, each but the last a multiple of 16.
int64_t EvenBlock(int64_t size, int64_t largest) {
  return std::min(largest, RoundUp(CeilDivide(size, CeilDivide(size, largest)), 16));
}

// The part of `matrix` that starts at (row, column), as the product counts rows and columns.
Matrix Part(Matrix matrix, int64_t row, int64_t column) {
  matrix.data = matrix.data.Offset(matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column);
  return matrix;
}

absl::Status Sgemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const Matrix& c,
                   bool accumulate) {
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f,
                 static_cast<const float*>(a.data.data), a.stride, static_cast<const float*>(b.data.data), b.stride,
                 accumulate ? 1.0f : 0.0f, static_cast<float*>(c.data.data), c.stride);
  if (status == dnnl_success) return absl::OkStatus();
  ZF_CHECK(status == dnnl_out_of_memory);
  return absl::ResourceExhaustedError("oneDNN found no memory for a matrix product on the cpu device");
}

// `matrix` as fp32: itself if it is fp32 and `in_place` allows that; otherwise its (rows, columns) part, copied into
// `buffer` in the same orientation.
Matrix AsFloat(const Matrix& matrix, int64_t rows, int64_t columns, bool in_place, float* buffer) {
  if (in_place && matrix.data.dtype == DType::kF32) return matrix;
  if (matrix.transposed) std::swap(rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    kernels::Convert(columns, matrix.data.Offset(row * matrix.stride), {buffer + row * columns, DType::kF32});
  }
  return {{buffer, DType::kF32}, columns, matrix.transposed};
}

// Adds the bias to each row of fp32 `c`, in place.
void AddBias(int64_t m, int64_t n, Tensor bias, const Matrix& c) {
  for (int64_t row = 0; row < m; ++row) {
    kernels::Accumulate(n, bias, static_cast<float*>(c.data.data) + row * c.stride);
  }
}

// Computes one tile of at most kTile by conversion and sgemm.
absl::Status ConvertedTile(const MatmulArguments& p) {
  ConversionBuffers& buffers = ThreadBuffers();
  const bool direct = p.c.data.dtype == DType::kF32;
  const Matrix c = direct ? p.c : Matrix{{buffers.c, DType::kF32}, p.n, false};
  const int64_t depth = EvenBlock(p.k, kPanelDepth);
  for (int64_t k0 = 0; k0 < p.k; k0 += depth) {
    const int64_t kb = std::min(depth, p.k - k0);
    // Reading a matrix across its stride may hit the same cache set again and again: dy at a width of 1024 halves the
    // rate. So such a matrix is copied.
    const Matrix a = AsFloat(Part(p.a, 0, k0), p.m, kb, /*in_place=*/!p.a.transposed, buffers.a);
    const Matrix b = AsFloat(Part(p.b, k0, 0), kb, p.n, /*in_place=*/p.b.transposed, buffers.b);
    const absl::Status status = Sgemm(p.m, p.n, kb, a, b, c, p.accumulate || k0 > 0);
    if (!status.ok()) return status;
  }
  if (p.bias) AddBias(p.m, p.n, p.bias, c);
  if (direct) return absl::OkStatus();
  for (int64_t row = 0; row < p.m; ++row) {
    kernels::Convert(p.n, c.data.Offset(row * c.stride), p.c.data.Offset(row * p.c.stride));
  }
  return absl::OkStatus();
}

absl::Status FloatTile(const MatmulArguments& p) {
  const absl::Status status = Sgemm(p.m, p.n, p.k, p.a, p.b, p.c, p.accumulate);
  if (status.ok() && p.bias) AddBias(p.m, p.n, p.bias, p.c);
  return status;
}

// Where the sums of a block go over some of its tokens.
struct DotsSums {
  Matrix sums;          // fp32
  bool add;             // whether they are added to what is there
  Matrix rounded = {};  // bf16: where the result goes, in place of `sums`; may be null
};

// Computes, for a block of at most kDotsBlock, the product of `pairs` pairs of packed columns of a and of b.
void MultiplyDotsBlock(const OutputTile& block, int64_t pairs, const uint32_t* a, const uint32_t* b,
                       const DotsSums& to) {
  using bf16_dots::kChunkLanes;
  const int64_t chunk = pairs * kChunkLanes;
  for (int64_t column = 0; column < block.n; column += kChunkLanes) {
    for (int64_t row = 0; row < block.m;) {
      const int64_t in_chunk = row % kChunkLanes;
      const int64_t rows = std::min({bf16_dots::kStripRows, kChunkLanes - in_chunk, block.m - row});
      bf16_dots::Product product{.rows = rows,
                                 .columns = std::min(kChunkLanes, block.n - column),
                                 .pairs = pairs,
                                 .a = a + row / kChunkLanes * chunk + in_chunk,
                                 .a_row = 1,
                                 .a_pair = kChunkLanes,
                                 .b = b + column / kChunkLanes * chunk,
                                 .b_chunk = chunk,
                                 .c = static_cast<float*>(Part(to.sums, row, column).data.data),
                                 .c_row = to.sums.stride,
                                 .add = to.add};
      if (to.rounded.data) {
        product.rounded = static_cast<BF16*>(Part(to.rounded, row, column).data.data);
        product.rounded_row = to.rounded.stride;
      }
      bf16_dots::Multiply(product);
      row += rows;
    }
  }
}

// Computes a tile of the product of a's columns and b's columns, at most kDotsBlock.n of these.
void DotsTile(const MatmulArguments& p) {
  const int64_t depth = EvenBlock(p.k, kDotsDepth), height = EvenBlock(p.m, kDotsBlock.m);
  const bool rounds = p.c.data.dtype != DType::kF32, waits = rounds && depth < p.k;
  const int64_t group = waits ? kDotsBlocksWaiting * height : p.m;
  for (int64_t first = 0; first < p.m; first += group) {
    const int64_t end = std::min(first + group, p.m);
    for (int64_t k0 = 0; k0 < p.k; k0 += depth) {
      const int64_t kb = std::min(depth, p.k - k0), pairs = CeilDivide(kb, 2);
      uint32_t *const b = DotsBuffer(), *const a = b + RoundUp(p.n, bf16_dots::kChunkLanes) * pairs;
      const auto pack = [&](const Matrix& from, int64_t columns, uint32_t* to) {
        bf16_dots::PackPairsOfRows(kb, columns, static_cast<const BF16*>(from.data.data) + k0 * from.stride,
                                   from.stride, to);
      };
      pack(p.b, p.n, b);
      for (int64_t row = first; row < end; row += height) {
        const OutputTile block = {std::min(height, end - row), p.n};
        const Matrix c = Part(p.c, row, 0);
        DotsSums to{.sums = c, .add = p.accumulate || k0 > 0};
        if (rounds) to.sums = {{WaitingSums() + (waits ? row - first : 0) * p.n, DType::kF32}, p.n};
        if (rounds && k0 + kb == p.k) to.rounded = c;
        pack(Part(p.a, row, 0), block.m, a);
        MultiplyDotsBlock(block, pairs, a, b, to);
      }
    }
  }
}

enum class Path { kFloat, kPrimitive, kBuffered, kDots, kConverted };

bool AllFloat(const MatmulArguments& p) {
  return p.a.data.dtype == DType::kF32 && p.b.data.dtype == DType::kF32 && p.c.data.dtype == DType::kF32;
}

Path ChoosePath(const MatmulArguments& p) {
  if (p.a.data.dtype == DType::kBF16 && p.b.data.dtype == DType::kBF16 && p.c.data.dtype != DType::kF16) {
    if (!HasBF16Instructions()) return Path::kConverted;
    const bool columns_along_k = p.a.transposed && !p.b.transposed && p.n % bf16_dots::kLanes == 0;
    if (columns_along_k && !p.bias && bf16_dots::Available()) return Path::kDots;
    const bool wide = std::max(p.n, p.whole_n) > kBufferedTile.n;
    return wide && p.c.data.dtype == DType::kF32 && !p.accumulate ? Path::kBuffered : Path::kPrimitive;
  }
  const bool rows_along_k = !p.a.transposed && p.b.transposed;
  return AllFloat(p) && rows_along_k ? Path::kFloat : Path::kConverted;
}

// Keeps oneDNN from starting OpenMP threads of its own on this thread: the pool has the threads that a product needs.
void KeepThisThreadSerial() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  static_cast<void>(done);
}

struct Tiling {
  Path path;
  int64_t m, n;           // sides of one tile
  int64_t across, tiles;  // tiles in a row, and in total
};

// `threads` share the tiles; 0: the calling thread has them all.
Tiling TilingFor(Path path, const MatmulArguments& p, int64_t threads = 0) {
  const OutputTile largest = path == Path::kBuffered ? kBufferedTile : path == Path::kDots ? kDotsBlock : kTile;
  const int64_t whole_m = p.whole_m > 0 ? p.whole_m : p.m, whole_n = p.whole_n > 0 ? p.whole_n : p.n;
  int64_t m = EvenBlock(whole_m, largest.m), n = EvenBlock(whole_n, largest.n);
  if (path == Path::kDots && threads > 0) {
    // An element's bits do not depend on its tile. Two tiles a thread let one that is held up leave work to others.
    const int64_t blocks = RoundUp(CeilDivide(whole_m, m), threads);
    m = EvenBlock(whole_m, CeilDivide(whole_m, threads == 1 ? 1 : std::min(blocks, 2 * threads)));
  }
  // The primitive loses 2 to 5% by narrower tiles, so only products of a single row of tiles have them there.
  const int64_t down = CeilDivide(whole_m, m);
  const bool cuts = path == Path::kPrimitive ? threads > 0 && down == 1 && !p.accumulate
                                             : path == Path::kFloat || path == Path::kConverted;
  if (cuts && down * CeilDivide(whole_n, n) < kFewTiles) {
    n = EvenBlock(whole_n, std::max(kFewestColumns, CeilDivide(down * whole_n, kFewTiles)));
  }
  const int64_t across = CeilDivide(p.n, n);
  return {path, m, n, across, across * CeilDivide(p.m, m)};
}

absl::Status RunTile(Path path, const MatmulArguments& tile);

absl::Status RunTileAt(const MatmulArguments& p, const Tiling& tiling, int64_t index) {
  const int64_t row = index / tiling.across * tiling.m, column = index % tiling.across * tiling.n;
  MatmulArguments tile = p;
  tile.whole_m = tile.whole_n = 0;
  tile.m = std::min(tiling.m, p.m - row);
  tile.n = std::min(tiling.n, p.n - column);
  tile.a = Part(p.a, row, 0);
  tile.b = Part(p.b, 0, column);
  tile.c = Part(p.c, row, column);
  if (p.bias) tile.bias = p.bias.Offset(column);
  return RunTile(tiling.path, tile);
}

absl::Status RunTilesInTurn(const MatmulArguments& p, const Tiling& tiling) {
  for (int64_t index = 0; index < tiling.tiles; ++index) {
    const absl::Status status = RunTileAt(p, tiling, index);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PrimitiveTileInBuffer(const MatmulArguments& p) {
  MatmulArguments buffered = p;
  buffered.c = {{BufferedTile(), DType::kF32}, p.n};
  const absl::Status status = PrimitiveMatmul(buffered);
  for (int64_t row = 0; status.ok() && row < p.m; ++row) {
    kernels::Convert(p.n, buffered.c.data.Offset(row * p.n), p.c.data.Offset(row * p.c.stride));
  }
  return status;
}

absl::Status RunTile(Path path, const MatmulArguments& tile) {
  KeepThisThreadSerial();
  switch (path) {
    case Path::kFloat: return FloatTile(tile);
    case Path::kConverted: return ConvertedTile(tile);
    case Path::kDots: DotsTile(tile); return absl::OkStatus();
    case Path::kPrimitive:
    case Path::kBuffered: {
      // The instruction set decides for which kinds of product there are primitives.
      const absl::Status status = path == Path::kPrimitive ? PrimitiveMatmul(tile) : PrimitiveTileInBuffer(tile);
      return absl::IsUnimplemented(status) ? RunTilesInTurn(tile, TilingFor(Path::kConverted, tile)) : status;
    }
  }
  ZF_CHECK(false);
}

void CheckArguments(const MatmulArguments& p) {
  ZF_CHECK(p.m > 0 && p.n > 0 && p.k > 0);
  ZF_CHECK(!p.c.transposed);
  ZF_CHECK(!p.accumulate || (p.c.data.dtype == DType::kF32 && !p.bias));
}

}  // namespace

OutputTile OutputTileOf(const MatmulArguments& arguments) {
  const Tiling tiling = TilingFor(ChoosePath(arguments), arguments);
  return {tiling.m, tiling.n};
}

absl::Status Matmul(ThreadPool& pool, const MatmulArguments& arguments) {
  CheckArguments(arguments);
  const Tiling tiling = TilingFor(ChoosePath(arguments), arguments, pool.threads());
  absl::Mutex mutex;
  absl::Status first_failure;
  pool.Run(tiling.tiles, [&](int64_t index, int) {
    const absl::Status status = RunTileAt(arguments, tiling, index);
    if (status.ok()) return;
    absl::MutexLock lock(&mutex);
    first_failure.Update(status);
  });
  return first_failure;
}

absl::Status SerialMatmul(const MatmulArguments& arguments) {
  CheckArguments(arguments);
  if (AllFloat(arguments)) return RunTile(Path::kFloat, arguments);
  return RunTilesInTurn(arguments, TilingFor(ChoosePath(arguments), arguments));
}

}  // namespace zerofleet::device
