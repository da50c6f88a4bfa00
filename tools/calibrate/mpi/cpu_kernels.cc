#include "tools/calibrate/mpi/cpu_kernels.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <random>

namespace stepsim::measure {
namespace {

template <class Number>
using Matrix = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Number>
void MultiplyTransposed(const Number* a, const Number* b, Number* c, std::ptrdiff_t m,
                        std::ptrdiff_t n, std::ptrdiff_t k) {
  const Eigen::Map<const Matrix<Number>> left(a, m, k), right(b, n, k);
  Eigen::Map<Matrix<Number>>(c, m, n).noalias() = left * right.transpose();
}

}  // namespace

std::string EigenVersion() {
  return std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
         std::to_string(EIGEN_MINOR_VERSION) + ", " + Eigen::SimdInstructionSetsInUse();
}

void Multiply(const float* a, const float* b, float* c, std::ptrdiff_t m, std::ptrdiff_t n,
              std::ptrdiff_t k) {
  MultiplyTransposed(a, b, c, m, n, k);
}
void Multiply(const double* a, const double* b, double* c, std::ptrdiff_t m, std::ptrdiff_t n,
              std::ptrdiff_t k) {
  MultiplyTransposed(a, b, c, m, n, k);
}

void Add(const float* a, const float* b, float* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

void NormRows(const float* from, float* to, std::size_t rows, std::size_t width) {
  using Row = Eigen::Map<const Eigen::ArrayXf>;
  const auto size = static_cast<std::ptrdiff_t>(width);
  for (std::size_t row = 0; row < rows; ++row) {
    const Row in(from + row * width, size);
    constexpr float kEpsilon = 1e-6F;
    const float scale = 1.0F / std::sqrt(in.square().mean() + kEpsilon);
    Eigen::Map<Eigen::ArrayXf>(to + row * width, size) = in * scale;
  }
}

void SoftmaxRows(float* scores, std::size_t rows, std::size_t columns, bool causal) {
  for (std::size_t row = 0; row < rows; ++row) {
    float* const begin = scores + row * columns;
    const std::size_t seen = causal ? std::min(row + 1, columns) : columns;
    Eigen::Map<Eigen::ArrayXf> values(begin, static_cast<std::ptrdiff_t>(seen));
    values = (values - values.maxCoeff()).exp();
    values /= values.sum();
    std::fill(begin + seen, begin + columns, 0.0F);
  }
}

std::vector<float> RandomNumbers(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  // A pattern much longer than a cache line, repeated: filling is not what is measured.
  constexpr std::size_t kPattern = 1 << 16;
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < std::min(count, kPattern); ++i) numbers[i] = uniform(generator);
  for (std::size_t i = kPattern; i < count; ++i) numbers[i] = numbers[i - kPattern];
  return numbers;
}

}  // namespace stepsim::measure
