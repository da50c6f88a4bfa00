// libFuzzer: bin/chakra_fuzz tests/fuzz/corpus/chakra
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libFuzzer hands over bytes.
  stepsim::FuzzChakra({reinterpret_cast<const char*>(data), size});
  return 0;
}
