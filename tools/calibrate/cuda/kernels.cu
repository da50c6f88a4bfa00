// Needs nothing but the runtime: no headers of types, so that it compiles in seconds. bf16 is the
// upper half of an fp32.
#include "tools/calibrate/cuda/kernels.h"

namespace stepsim::measure {
namespace {

constexpr int kThreads = 256;
constexpr int kCopyThreads = 1024;
constexpr int kMostBlocks = 1 << 16;
constexpr int kWarp = 32;

__device__ float FromBf16(std::uint32_t bits) { return __uint_as_float(bits << 16); }
__device__ std::uint32_t ToBf16(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to the nearest, ties to even
}
__device__ std::uint32_t AddPair(std::uint32_t a, std::uint32_t b) {
  return ToBf16(FromBf16(a & 0xffff) + FromBf16(b & 0xffff)) |
         ToBf16(FromBf16(a >> 16) + FromBf16(b >> 16)) << 16;
}

__device__ std::uint32_t Mix(std::uint32_t x) {  // every input bit reaches every output bit
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

// Sign, an exponent one less than the last with probability 1/2, random mantissa: uniform in (-1, 1).
__device__ std::uint32_t RandomBits(std::uint32_t random, int exponent_bits, int mantissa_bits) {
  const std::uint32_t bias = (1U << (exponent_bits - 1)) - 1;
  const std::uint32_t halvings = __clz(random | 1U);
  const std::uint32_t exponent = halvings + 1 < bias ? bias - 1 - halvings : 1;
  const std::uint32_t mantissa = Mix(random + 1) & ((1U << mantissa_bits) - 1);
  const std::uint32_t sign = random & 1U;
  return sign << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa;
}

template <class Element>
__global__ void FillKernel(Element* to, std::size_t count, int exponent_bits, int mantissa_bits,
                           std::uint32_t seed) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const auto low = static_cast<std::uint32_t>(i), high = static_cast<std::uint32_t>(i >> 32);
    to[i] = static_cast<Element>(
        RandomBits(Mix(low ^ Mix(high ^ seed)), exponent_bits, mantissa_bits));
  }
}

__global__ void EmptyKernel() {}

__global__ void HoldKernel(std::uint32_t nanoseconds) {
  std::uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

__global__ void CopyKernel(const uint4* from, uint4* to, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

__global__ void AddKernel(const uint4* a, const uint4* b, uint4* sum, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const uint4 x = a[i], y = b[i];
  sum[i] = make_uint4(AddPair(x.x, y.x), AddPair(x.y, y.y), AddPair(x.z, y.z), AddPair(x.w, y.w));
}

// All threads of the block get the result. `shared` has one place per warp.
template <class Combine>
__device__ float OverBlock(float value, float* shared, Combine combine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  __syncthreads();  // the last round has read `shared`
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  float result = shared[0];
  for (int warp = 1; warp < kThreads / kWarp; ++warp) result = combine(result, shared[warp]);
  return result;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

// One row per block, held in registers: read once, written once.
__global__ void NormKernel(const uint4* from, uint4* to) {
  constexpr int kParts = kNormWidth / (8 * kThreads);  // of 8 elements per thread
  __shared__ float shared[kThreads / kWarp];
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * (kNormWidth / 8);
  uint4 parts[kParts];
  float squares = 0;
  for (int part = 0; part < kParts; ++part) {
    parts[part] = from[row + part * kThreads + threadIdx.x];
    const std::uint32_t words[4] = {parts[part].x, parts[part].y, parts[part].z, parts[part].w};
    for (const std::uint32_t word : words) {
      const float low = FromBf16(word & 0xffff), high = FromBf16(word >> 16);
      squares += low * low + high * high;
    }
  }
  const float scale = rsqrtf(OverBlock(squares, shared, Sum{}) / kNormWidth + 1e-6F);
  const auto scaled = [scale](std::uint32_t word) {
    return ToBf16(FromBf16(word & 0xffff) * scale) | ToBf16(FromBf16(word >> 16) * scale) << 16;
  };
  for (int part = 0; part < kParts; ++part) {
    to[row + part * kThreads + threadIdx.x] = make_uint4(scaled(parts[part].x), scaled(parts[part].y),
                                                         scaled(parts[part].z), scaled(parts[part].w));
  }
}

__global__ void SoftmaxKernel(std::uint16_t* scores, int columns, int queries, bool causal) {
  __shared__ float shared[kThreads / kWarp];
  const std::size_t row = blockIdx.x;
  std::uint16_t* const begin = scores + row * columns;
  const int query = static_cast<int>(row % queries);
  const int seen = causal && query + 1 < columns ? query + 1 : columns;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < seen; i += kThreads) largest = fmaxf(largest, FromBf16(begin[i]));
  largest = OverBlock(largest, shared, Largest{});
  float sum = 0;
  for (int i = threadIdx.x; i < seen; i += kThreads) sum += __expf(FromBf16(begin[i]) - largest);
  sum = OverBlock(sum, shared, Sum{});
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    const float value = i < seen ? __expf(FromBf16(begin[i]) - largest) / sum : 0.0F;
    begin[i] = static_cast<std::uint16_t>(ToBf16(value));
  }
}

// Whole blocks of kCopyThreads elements are dealt to the grid, round and round in the buffer.
__global__ void CopyOnSmsKernel(const uint4* from, uint4* to, std::size_t buffer_blocks,
                                std::size_t blocks) {
  for (std::size_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::size_t i = block % buffer_blocks * kCopyThreads + threadIdx.x;
    to[i] = from[i];
  }
}

unsigned BlocksFor(std::size_t count, int threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

}  // namespace

cudaError_t FillRandom(void* to, std::size_t count, Pattern pattern, std::uint32_t seed,
                       cudaStream_t stream) {
  const std::size_t needed = (count + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < kMostBlocks ? needed : kMostBlocks);
  if (blocks == 0) return cudaSuccess;
  switch (pattern) {
    case Pattern::kBf16:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<std::uint16_t*>(to), count, 8, 7, seed);
      break;
    case Pattern::kFp16:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<std::uint16_t*>(to), count, 5, 10, seed);
      break;
    case Pattern::kFp32:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<std::uint32_t*>(to), count, 8, 23, seed);
      break;
    case Pattern::kFp8:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<std::uint8_t*>(to), count, 4, 3, seed);
      break;
  }
  return cudaGetLastError();
}

cudaError_t LaunchEmpty(cudaStream_t stream) {
  EmptyKernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t Hold(std::uint32_t nanoseconds, cudaStream_t stream) {
  HoldKernel<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

cudaError_t CopyTensor(const void* from, void* to, std::size_t bytes, cudaStream_t stream) {
  const std::size_t count = bytes / sizeof(uint4);
  CopyKernel<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), count);
  return cudaGetLastError();
}

cudaError_t AddTensors(const void* a, const void* b, void* sum, std::size_t bytes,
                       cudaStream_t stream) {
  const std::size_t count = bytes / sizeof(uint4);
  AddKernel<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      static_cast<const uint4*>(a), static_cast<const uint4*>(b), static_cast<uint4*>(sum), count);
  return cudaGetLastError();
}

cudaError_t NormRows(const void* from, void* to, std::size_t rows, cudaStream_t stream) {
  NormKernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                                   static_cast<uint4*>(to));
  return cudaGetLastError();
}

cudaError_t SoftmaxRows(void* scores, std::size_t rows, int columns, int queries, bool causal,
                        cudaStream_t stream) {
  SoftmaxKernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      static_cast<std::uint16_t*>(scores), columns, queries, causal);
  return cudaGetLastError();
}

namespace {

cudaError_t SharedMemory(int* bytes) {
  int device = 0;
  const cudaError_t code = cudaGetDevice(&device);
  if (code != cudaSuccess) return code;
  return cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

}  // namespace

cudaError_t PrepareCopyOnSms() {
  int shared = 0;
  const cudaError_t code = SharedMemory(&shared);
  if (code != cudaSuccess) return code;
  return cudaFuncSetAttribute(CopyOnSmsKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
}

cudaError_t CopyOnSms(const void* from, void* to, std::size_t buffer_bytes, std::size_t bytes,
                      int sms, cudaStream_t stream) {
  int shared = 0;
  const cudaError_t code = SharedMemory(&shared);
  if (code != cudaSuccess) return code;
  constexpr std::size_t kBlockBytes = kCopyThreads * sizeof(uint4);
  CopyOnSmsKernel<<<static_cast<unsigned>(sms), kCopyThreads, static_cast<std::size_t>(shared),
                    stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to),
                              buffer_bytes / kBlockBytes, bytes / 2 / kBlockBytes);
  return cudaGetLastError();
}

}  // namespace stepsim::measure
