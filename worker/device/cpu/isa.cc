// See isa.h.
#include "worker/device/cpu/isa.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "hwy/targets.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {
namespace {

struct IsaLevel {
  const char* name;
  int64_t kernels_beyond;  // Highway's targets that are better than this one
  dnnl::cpu_isa primitives;
};
constexpr IsaLevel kIsaLevels[] = {{"sse4", HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL, dnnl::cpu_isa::sse41},
                                   {"avx2", HWY_AVX3 | HWY_AVX3_DL, dnnl::cpu_isa::avx2},
                                   {"avx512", HWY_AVX3_DL, dnnl::cpu_isa::avx512_core},
                                   {"amx", 0, dnnl::cpu_isa::avx512_core_amx}};

struct IsaWord {
  dnnl::cpu_isa isa;
  const char* name;
};
constexpr IsaWord kIsaWords[] = {{dnnl::cpu_isa::sse41, "SSE4.1"},
                                 {dnnl::cpu_isa::avx, "AVX"},
                                 {dnnl::cpu_isa::avx2, "AVX2"},
                                 {dnnl::cpu_isa::avx2_vnni, "AVX2 with VNNI"},
                                 {dnnl::cpu_isa::avx512_mic, "AVX-512 of Xeon Phi"},
                                 {dnnl::cpu_isa::avx512_mic_4ops, "AVX-512 of Xeon Phi"},
                                 {dnnl::cpu_isa::avx512_core, "AVX-512"},
                                 {dnnl::cpu_isa::avx512_core_vnni, "AVX-512 with VNNI"},
                                 {dnnl::cpu_isa::avx512_core_bf16, "AVX-512 with bf16"},
                                 {dnnl::cpu_isa::avx512_core_amx, "AMX"}};

// The set that this process has been pinned to; empty: none.
std::string& Pinned() {
  static std::string& pinned = *new std::string();
  return pinned;
}

}  // namespace

std::string IsaName() {
  std::string name = kernels::TargetName();
  const bool allowed = Pinned().empty() || Pinned() == std::rbegin(kIsaLevels)->name;
  if (allowed && __builtin_cpu_supports("avx512bf16")) name += " bf16";
  return name;
}

std::string PrimitiveIsaName() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const IsaWord* word = std::find_if(std::begin(kIsaWords), std::end(kIsaWords),
                                     [isa](const IsaWord& known) { return known.isa == isa; });
  return word == std::end(kIsaWords) ? absl::StrCat("number ", static_cast<int>(isa)) : word->name;
}

std::string PrimitiveVersion() {
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat(version.major, ".", version.minor, ".", version.patch);
}

bool IsIsaPinned() { return !Pinned().empty(); }

absl::Status PinIsa(const std::string& isa) {
  if (isa == "auto" || isa == Pinned()) return absl::OkStatus();
  const IsaLevel* level = std::find_if(std::begin(kIsaLevels), std::end(kIsaLevels),
                                       [&isa](const IsaLevel& known) { return known.name == isa; });
  if (level == std::end(kIsaLevels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_isa: unknown instruction set '", isa, "'; use auto, sse4, avx2, avx512 or amx"));
  }
  if (!Pinned().empty() || dnnl::set_max_cpu_isa(level->primitives) != dnnl::status::success) {
    return absl::FailedPreconditionError(absl::StrCat("device_isa: ", isa,
                                                      " comes too late: this process computes with ",
                                                      Pinned().empty() ? PrimitiveIsaName() : Pinned(), " already"));
  }
  hwy::DisableTargets(level->kernels_beyond);
  Pinned() = isa;
  if (dnnl::get_effective_cpu_isa() == level->primitives) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("device_isa: ", isa, " is more than this CPU has, which is ",
                                                    PrimitiveIsaName(), "; pin the fleet to the least of its CPUs"));
}

}  // namespace zerofleet::device
