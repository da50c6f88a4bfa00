#include "sim/base/large_array.h"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace stepsim {
namespace {

constexpr std::align_val_t kLargePage{std::size_t{2} << 20};

}  // namespace

void* AllocateLargePages(std::size_t bytes) {
  void* memory = ::operator new(bytes, kLargePage);
#if defined(MADV_HUGEPAGE)
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: a refusal changes nothing
#endif
  return memory;
}

void FreeLargePages(void* memory) { ::operator delete(memory, kLargePage); }

}  // namespace stepsim
