// libFuzzer: bin/condition_fuzz tests/fuzz/corpus/condition
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libFuzzer hands over bytes; a text is the same bytes.
  stepsim::FuzzCondition({reinterpret_cast<const char*>(data), size});
  return 0;
}
