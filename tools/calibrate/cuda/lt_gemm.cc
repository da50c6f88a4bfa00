#include "tools/calibrate/cuda/lt_gemm.h"

#include <fmt/format.h>

#include <array>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/cuda/check.h"
#include "tools/calibrate/cuda/kernels.h"

namespace stepsim::measure {
namespace {

constexpr std::size_t kWorkspace = 32 << 20;  // as frameworks give it on Hopper
constexpr int kFp8Multiple = 16;              // of every edge
constexpr int kFirstWithFp8 = 89;             // compute capability 8.9

struct TypeRow {
  std::string_view name;
  cudaDataType_t operand, result;
  cublasComputeType_t compute;
  Pattern pattern;
};
constexpr std::array<TypeRow, 5> kTypes = {{
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, Pattern::kBf16},
    {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, Pattern::kFp16},
    {"fp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, Pattern::kFp8},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, Pattern::kFp32},
    {"fp32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, Pattern::kFp32},
}};

const TypeRow& TypeOf(const std::string& dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.name == dtype) return row;
  }
  throw CannotMeasure(
      fmt::format("found type {}, allowed on a GPU: bf16, fp16, fp8, tf32, fp32", dtype));
}

void CheckFp8(const LtShape& shape) {
  const int capability = DeviceAttribute(cudaDevAttrComputeCapabilityMajor) * 10 +
                         DeviceAttribute(cudaDevAttrComputeCapabilityMinor);
  if (capability < kFirstWithFp8) {
    throw CannotMeasure(fmt::format("fp8 needs compute capability 8.9, this GPU has {}.{}",
                                    capability / 10, capability % 10));
  }
  for (const std::int64_t edge : {shape.m, shape.n, shape.k}) {
    if (edge % kFp8Multiple != 0) {
      throw CannotMeasure(
          fmt::format("fp8 needs edges that are multiples of {}, found {}", kFp8Multiple, edge));
    }
  }
}

template <class Value>
void SetOperation(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                  const Value& value) {
  CheckCublas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
              "cublasLtMatmulDescSetAttribute");
}

cublasLtMatrixLayout_t MakeLayout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                  std::int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckCublas(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(columns), rows),
              "cublasLtMatrixLayoutCreate");
  if (batch == 1) return layout;
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t stride = rows * columns;
  CheckCublas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                               sizeof count),
              "cublasLtMatrixLayoutSetAttribute");
  CheckCublas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &stride, sizeof stride),
              "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

std::size_t Area(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

LtHandle::LtHandle() { CheckCublas(cublasLtCreate(&handle_), "cublasLtCreate"); }
LtHandle::~LtHandle() { Ignore(cublasLtDestroy(handle_)); }

LtProduct::LtProduct(const LtHandle& handle, const LtShape& shape) : handle_(handle) {
  const TypeRow& type = TypeOf(shape.dtype);
  if (shape.dtype == "fp8") CheckFp8(shape);
  workspace_ = std::make_unique<DeviceMemory>(kWorkspace);
  CheckCublas(cublasLtMatmulDescCreate(&operation_, type.compute, CUDA_R_32F),
              "cublasLtMatmulDescCreate");
  const cublasOperation_t transposed = shape.transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  SetOperation(operation_, CUBLASLT_MATMUL_DESC_TRANSA, transposed);
  SetOperation(operation_, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (shape.dtype == "fp8") {  // as frameworks' forward; scales are 1 by default
    SetOperation(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  }
  a_ = shape.transposed_a ? MakeLayout(type.operand, shape.k, shape.m, shape.batch)
                          : MakeLayout(type.operand, shape.m, shape.k, shape.batch);
  b_ = MakeLayout(type.operand, shape.k, shape.n, shape.batch);
  d_ = MakeLayout(type.result, shape.m, shape.n, shape.batch);
  ChooseAlgorithm(shape);
}

void LtProduct::ChooseAlgorithm(const LtShape& shape) {
  cublasLtMatmulPreference_t preference = nullptr;
  CheckCublas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::size_t workspace = kWorkspace;
  CheckCublas(
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &workspace, sizeof workspace),
      "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(handle_.get(), operation_, a_, b_, d_,
                                                             d_, preference, 1, &result, &found);
  Ignore(cublasLtMatmulPreferenceDestroy(preference));
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || (code == CUBLAS_STATUS_SUCCESS && found == 0)) {
    throw CannotMeasure(fmt::format("cuBLASLt has no algorithm for {} of this shape", shape.dtype));
  }
  CheckCublas(code, "cublasLtMatmulAlgoGetHeuristic");
  algorithm_ = result.algo;
}

LtProduct::~LtProduct() {
  for (cublasLtMatrixLayout_t layout : {a_, b_, d_}) {
    if (layout != nullptr) Ignore(cublasLtMatrixLayoutDestroy(layout));
  }
  if (operation_ != nullptr) Ignore(cublasLtMatmulDescDestroy(operation_));
}

void LtProduct::Enqueue(const void* a, const void* b, void* d, const Stream& stream) const {
  const float one = 1, zero = 0;
  CheckCublas(cublasLtMatmul(handle_.get(), operation_, &one, a, a_, b, b_, &zero, d, d_, d, d_,
                             &algorithm_, workspace_->data(), kWorkspace, stream.get()),
              "cublasLtMatmul");
}

LtGemm::LtGemm(const LtHandle& handle, const GemmTask& task)
    : product_(handle, {task.m, task.n, task.k, 1, true, task.dtype}) {
  const TypeRow& type = TypeOf(task.dtype);
  const auto operand = static_cast<std::size_t>(ElementBytes(task.dtype).value_or(1));
  const std::size_t result = task.dtype == "fp8" ? 2 : operand;
  const std::size_t a = Area(task.m, task.k), b = Area(task.n, task.k), d = Area(task.m, task.n);
  const std::size_t count = SetsBeyondCache((a + b) * operand + d * result);
  const Stream stream;
  for (std::size_t i = 0; i < count; ++i) {
    sets_.push_back(
        {DeviceMemory(a * operand), DeviceMemory(b * operand), DeviceMemory(d * result)});
    const auto seed = static_cast<std::uint32_t>(2 * i);
    CheckCuda(FillRandom(sets_.back().a.data(), a, type.pattern, seed, stream.get()),
              "fill kernel");
    CheckCuda(FillRandom(sets_.back().b.data(), b, type.pattern, seed + 1, stream.get()),
              "fill kernel");
  }
  stream.Synchronize();
}

void LtGemm::Enqueue(const Stream& stream) {
  const Set& set = sets_[next_++ % sets_.size()];
  product_.Enqueue(set.a.data(), set.b.data(), set.d.data(), stream);
}

}  // namespace stepsim::measure
