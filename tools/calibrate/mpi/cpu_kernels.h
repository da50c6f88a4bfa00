// What does the CPU compute? Matrix products by Eigen, and loops bound by memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stepsim::measure {

std::string EigenVersion();  // "3.4.0, SSE2"

// C = A B^T, all row-major: A is m x k, B is n x k.
void Multiply(const float* a, const float* b, float* c, std::ptrdiff_t m, std::ptrdiff_t n,
              std::ptrdiff_t k);
void Multiply(const double* a, const double* b, double* c, std::ptrdiff_t m, std::ptrdiff_t n,
              std::ptrdiff_t k);

void Add(const float* a, const float* b, float* sum, std::size_t count);
// Each row of `width` divided by its root mean square.
void NormRows(const float* from, float* to, std::size_t rows, std::size_t width);
// Row i sees the first `causal ? i + 1 : columns` values; the others become 0.
void SoftmaxRows(float* scores, std::size_t rows, std::size_t columns, bool causal);

// The same on every run: from -1 to 1.
std::vector<float> RandomNumbers(std::size_t count, unsigned seed);

}  // namespace stepsim::measure
