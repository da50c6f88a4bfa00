#include "models/spec/model.h"

#include "sim/base/check.h"

namespace stepsim {

std::int64_t TransformerSpec::padded_vocab() const {
  SIM_CHECK(vocab_multiple >= 1, "vocab_multiple must be positive");
  return (vocab_size + vocab_multiple - 1) / vocab_multiple * vocab_multiple;
}

}  // namespace stepsim
