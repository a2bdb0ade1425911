// See cpu_device.h.
#include "worker/device/cpu/cpu_device.h"

#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/huge_pages.h"
#include "base/units.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kCopyBlockBytes = int64_t{1} << 20;

class CpuReservation : public Reservation {
 public:
  CpuReservation(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  ~CpuReservation() override {
    if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  }
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_;
};

// "AMD EPYC" from /proc/cpuinfo, or "CPU" where it does not say.
std::string ModelName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

CpuDevice::CpuDevice(int threads) : pool_(threads), ops_(pool_) {
  const char* const folder = std::getenv(OpProfile::kVariable);
  if (folder == nullptr) return;
  absl::StatusOr<std::unique_ptr<OpProfile>> profile = OpProfile::Create(absl::StrCat(folder, "/", getpid()));
  // Continues without a profile; its reader will find no file.
  if (!profile.ok()) return;
  profile_ = *std::move(profile);
  profiled_ = std::make_unique<ProfiledOps>(ops_, *profile_, ProfiledOps::Where::kHost);
}

std::string CpuDevice::description() const {
  return absl::StrCat(ModelName(), ", ", IsaName(), ", ", pool_.threads(),
                      pool_.threads() == 1 ? " thread" : " threads");
}

std::vector<Fact> CpuDevice::arithmetic() const {
  std::vector<Fact> facts = {{"instruction set", kernels::TargetName()},
                             {"oneDNN's instruction set", PrimitiveIsaName()},
                             {"oneDNN", PrimitiveVersion()},
                             {"C library", gnu_get_libc_version()}};
  // With pinned instruction sets, different processors are meant to give the same bits.
  if (!IsIsaPinned()) facts.push_back({"processor", ModelName()});
  return facts;
}

absl::StatusOr<std::unique_ptr<Reservation>> CpuDevice::Reserve(int64_t bytes) {
  ZF_CHECK(bytes >= 0);
  if (bytes == 0) return std::make_unique<CpuReservation>(nullptr, 0);
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cpu device cannot reserve ", HumanBytes(bytes), ": ", std::strerror(errno)));
  }
  PreferHugePages(data, static_cast<size_t>(bytes));
  return std::make_unique<CpuReservation>(static_cast<std::byte*>(data), bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> CpuDevice::CreateStream() { return std::make_unique<CpuStream>(); }

void CpuDevice::Copy(Stream&, void* to, const void* from, int64_t bytes) {
  pool_.RunBlocks(bytes, kCopyBlockBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace zerofleet::device
