// How is a matrix product run? Through cuBLASLt, as the frameworks do, with the first algorithm
// that its heuristic names.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/calibrate/cuda/resources.h"
#include "tools/calibrate/task.h"

namespace stepsim::measure {

class LtHandle {
 public:
  LtHandle();
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;
  ~LtHandle();
  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

// D = op(A) B, column-major, `batch` equal ones at a distance of their own size.
struct LtShape {
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
  bool transposed_a = true;  // A is k x m
  std::string dtype = "bf16";
};

// Descriptors and the algorithm; no operands.
class LtProduct {
 public:
  LtProduct(const LtHandle& handle, const LtShape& shape);  // throws CannotMeasure
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;
  ~LtProduct();
  void Enqueue(const void* a, const void* b, void* d, const Stream& stream) const;

 private:
  void ChooseAlgorithm(const LtShape& shape);

  const LtHandle& handle_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::unique_ptr<DeviceMemory> workspace_;
};

// A product with operands of its own that rotate beyond the L2 cache.
class LtGemm {
 public:
  LtGemm(const LtHandle& handle, const GemmTask& task);  // throws CannotMeasure
  void Enqueue(const Stream& stream);

 private:
  struct Set {
    DeviceMemory a, b, d;
  };
  LtProduct product_;
  std::vector<Set> sets_;
  std::size_t next_ = 0;
};

}  // namespace stepsim::measure
