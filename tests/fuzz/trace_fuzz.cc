// libFuzzer: bin/trace_fuzz tests/fuzz/corpus/trace
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libFuzzer hands over bytes; a text is the same bytes.
  stepsim::FuzzTrace({reinterpret_cast<const char*>(data), size});
  return 0;
}
