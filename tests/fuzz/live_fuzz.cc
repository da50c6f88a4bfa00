// libFuzzer: bin/live_fuzz tests/fuzz/corpus/live
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libFuzzer hands over bytes; a text is the same bytes.
  stepsim::FuzzLiveSweep({reinterpret_cast<const char*>(data), size});
  return 0;
}
