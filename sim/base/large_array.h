// How are arrays of millions of items kept? Like any vector, but an array of several megabytes asks
// the system for large pages: one address translation for 2 MiB instead of 4 KiB, which is what the
// event loop waits for when thousands of ranks step through as many corners of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace stepsim {

template <class T>
struct LargePageAllocator {
  using value_type = T;

  LargePageAllocator() = default;
  template <class U>
  LargePageAllocator(const LargePageAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kLargeArray) return std::allocator<T>().allocate(count);
    void* memory = ::operator new (bytes, std::align_val_t{kLargePage});
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: where it is not granted, nothing changes
#endif
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < kLargeArray) return std::allocator<T>().deallocate(memory, count);
    ::operator delete (memory, std::align_val_t{kLargePage});
  }

  bool operator==(const LargePageAllocator&) const { return true; }

 private:
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;
  static constexpr std::size_t kLargeArray = 2 * kLargePage;
};

template <class T>
using LargeArray = std::vector<T, LargePageAllocator<T>>;

}  // namespace stepsim
