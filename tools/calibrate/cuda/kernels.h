// Which kernels of our own are timed, or hold the device while others are? Each call enqueues one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace stepsim::measure {

enum class Pattern : std::uint8_t { kBf16, kFp16, kFp32, kFp8 };  // fp8: e4m3

// Random numbers between -1 and 1, signs mixed: their bits toggle as in training.
cudaError_t FillRandom(void* to, std::size_t count, Pattern pattern, std::uint32_t seed,
                       cudaStream_t stream);

cudaError_t LaunchEmpty(cudaStream_t stream);

// Keeps the stream busy without touching memory, so that the host can fill the queue behind it.
cudaError_t Hold(std::uint32_t nanoseconds, cudaStream_t stream);

// Memory-bound kernels over bf16; `bytes` per tensor, multiples of 16.
cudaError_t CopyTensor(const void* from, void* to, std::size_t bytes, cudaStream_t stream);
cudaError_t AddTensors(const void* a, const void* b, void* sum, std::size_t bytes,
                       cudaStream_t stream);
constexpr int kNormWidth = 4096;  // elements of a row
cudaError_t NormRows(const void* from, void* to, std::size_t rows, cudaStream_t stream);

// Rows of bf16 scores become probabilities, in place. Causal: row i sees columns 0..i % queries.
cudaError_t SoftmaxRows(void* scores, std::size_t rows, int columns, int queries, bool causal,
                        cudaStream_t stream);

// A copy that takes `sms` multiprocessors for itself (all their shared memory) and moves `bytes`
// (reads plus writes), round and round in two buffers of `buffer_bytes`.
cudaError_t PrepareCopyOnSms();  // once per device
cudaError_t CopyOnSms(const void* from, void* to, std::size_t buffer_bytes, std::size_t bytes,
                      int sms, cudaStream_t stream);

}  // namespace stepsim::measure
