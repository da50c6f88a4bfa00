#include "models/spec/model.h"

#include <gtest/gtest.h>

#include "models/spec/hardware.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

TEST(PaddedVocab, IsTheNextMultiple) {
  TransformerSpec spec;
  spec.vocab_size = 50257;
  spec.vocab_multiple = 128;  // Megatron's make-vocab-size-divisible-by: 393 x 128
  EXPECT_EQ(spec.padded_vocab(), 50304);
}

TEST(PaddedVocab, LeavesAMultipleAlone) {
  TransformerSpec spec;
  spec.vocab_size = 128256;
  spec.vocab_multiple = 1;
  EXPECT_EQ(spec.padded_vocab(), 128256);
  spec.vocab_multiple = 128;  // 1002 x 128
  EXPECT_EQ(spec.padded_vocab(), 128256);
}

TEST(PaddedVocab, RefusesAMultipleOfZero) {
  TransformerSpec spec;
  spec.vocab_multiple = 0;
  EXPECT_THROW(spec.padded_vocab(), InternalError);
}

TEST(PeakOf, TakesTheUnitsOfTheType) {
  GpuSpec gpu;
  gpu.peak = {FlopRate{1}, FlopRate{2}, FlopRate{3}, FlopRate{4}, FlopRate{5}};
  EXPECT_EQ(PeakOf(gpu, DType::kFp32), FlopRate{1});
  EXPECT_EQ(PeakOf(gpu, DType::kTf32), FlopRate{2});
  EXPECT_EQ(PeakOf(gpu, DType::kBf16), FlopRate{3});
  EXPECT_EQ(PeakOf(gpu, DType::kFp16), FlopRate{4});
  EXPECT_EQ(PeakOf(gpu, DType::kFp8), FlopRate{5});
}

}  // namespace
}  // namespace stepsim
