// How are arrays of millions of items kept? Like any vector, but an array of several megabytes asks
// the system for large pages: one address translation for 2 MiB instead of 4 KiB, which is what the
// event loop waits for when thousands of ranks step through as many corners of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace stepsim {

// Where large pages are not granted, this is ordinary memory. Throws std::bad_alloc.
void* AllocateLargePages(std::size_t bytes);
void FreeLargePages(void* memory);

template <class T>
struct LargePageAllocator {
  using value_type = T;

  LargePageAllocator() = default;
  template <class U>
  LargePageAllocator(const LargePageAllocator<U>&) {}  // containers convert allocators

  T* allocate(std::size_t count) {
    if (IsSmall(count)) return std::allocator<T>().allocate(count);
    return static_cast<T*>(AllocateLargePages(count * sizeof(T)));
  }

  void deallocate(T* memory, std::size_t count) {
    if (IsSmall(count)) return std::allocator<T>().deallocate(memory, count);
    FreeLargePages(memory);
  }

  bool operator==(const LargePageAllocator&) const { return true; }

 private:
  static constexpr std::size_t kLargeArray = std::size_t{4} << 20;
  static bool IsSmall(std::size_t count) { return count < kLargeArray / sizeof(T); }
};

template <class T>
using LargeArray = std::vector<T, LargePageAllocator<T>>;

}  // namespace stepsim
