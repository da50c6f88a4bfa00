#include "models/calibration/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace stepsim {
namespace {

// "bf16", "fp16/bf16" (either), "fp8e4m3".
std::optional<DType> TypeOf(std::string_view text) {
  text = text.substr(0, text.find('/'));
  if (text.substr(0, 3) == "fp8") return DType::kFp8;
  return ParseDType(text);
}

bool IsFloat(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kInt64; }

class TableReader {
 public:
  explicit TableReader(const CsvTable& table)
      : reader_(table, {"kind", "gpu", "m", "n", "k", "dtype_in", "tflops"}), table_(table) {}

  KernelTable Read() {
    KernelTable result;
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      const std::string_view kind = reader_.Text(row, "kind");
      if (kind != "gemm" && kind != "grouped_gemm") {
        ++result.other_kinds;
      } else if (IsEmpty(row, "m") || IsEmpty(row, "n") || IsEmpty(row, "k")) {
        ++result.no_shape;
      } else {
        ReadRow(row, result);
      }
    }
    reader_.ThrowIfAny();
    return result;
  }

 private:
  bool IsEmpty(std::size_t row, std::string_view column) const {
    return reader_.Text(row, column).empty();
  }

  void ReadRow(std::size_t row, KernelTable& result) {
    const auto m = reader_.PositiveInteger(row, "m");
    const auto n = reader_.PositiveInteger(row, "n");
    const auto k = reader_.PositiveInteger(row, "k");
    std::optional<std::int64_t> groups = 1;
    if (!IsEmpty(row, "groups_or_batch")) groups = reader_.PositiveInteger(row, "groups_or_batch");
    const auto rate = reader_.Positive(row, "tflops");
    const auto dtype = ReadType(row, "dtype_in");
    auto output = dtype;
    if (!IsEmpty(row, "dtype_out"))
      output = ReadType(row, "dtype_out");
    else if (dtype == DType::kFp8)
      output = DType::kBf16;
    if (reader_.Text(row, "gpu").empty()) reader_.Report(row, "gpu", "found no name");
    if (!m || !n || !k || !groups || !rate || !dtype || !output) return;
    constexpr double kMost = 1e12;  // a matrix of a terabyte
    const auto real = [](std::int64_t x) { return static_cast<double>(x); };
    if (std::max({real(*m) * real(*n), real(*m) * real(*k), real(*n) * real(*k)}) * real(*groups) >
        kMost) {
      reader_.Report(row, "m", "found matrices of more than 1e12 elements");
      return;
    }
    KernelRow read{row, std::string(reader_.Text(row, "gpu")), {}, 0};
    read.work = Product(row, *dtype, *output, {*m, *n, *k}, *groups);
    read.seconds = read.work.flops.value / (*rate * 1e12);
    result.rows.push_back(std::move(read));
  }

  std::optional<DType> ReadType(std::size_t row, std::string_view column) {
    const std::string_view text = reader_.Text(row, column);
    const std::optional<DType> dtype = TypeOf(text);
    if (dtype.has_value() && IsFloat(*dtype)) return dtype;
    reader_.Report(row, column,
                   fmt::format("found '{}', allowed: fp32, tf32, bf16, fp16, fp8", text));
    return std::nullopt;
  }

  // Gradients of an expert's product are written under the forward's shape.
  ComputeWork Product(std::size_t row, DType dtype, DType output, std::array<std::int64_t, 3> mnk,
                      std::int64_t groups) const {
    auto [m, n, k] = mnk;
    const std::string_view layout = reader_.Text(row, "layout");
    ComputeWork work;
    if (layout == "NN" || layout == "bwd_grad_act") work.pass = Pass::kInputGradient;
    if (layout.substr(0, 2) == "NT" && dtype != DType::kFp8) work.pass = Pass::kWeightGradient;
    if (layout == "bwd_grad_w") work.pass = Pass::kWeightGradient;
    if (layout == "bwd_grad_act") std::swap(n, k);
    if (layout == "bwd_grad_w") {
      std::swap(m, n);  // n x rows by rows x k
      std::swap(n, k);
    }
    // A bare cuBLAS call: column-major, m is the contiguous side of the result.
    if (layout.empty()) std::swap(m, n);
    const std::string_view flag = reader_.Text(row, "accumulate");
    const bool accumulates = flag == "True" || flag == "true" || flag == "1";
    work.compute_class = ComputeClass::kGemm;
    work.dtype = dtype;
    work.output = output;
    work.flops = Flops{2.0 * static_cast<double>(m) * static_cast<double>(n) *
                       static_cast<double>(k) * static_cast<double>(groups)};
    const Bytes result = SizeOf(output, m * n * groups);
    work.bytes = SizeOf(dtype, (m * k + k * n) * groups) + (accumulates ? result * 2 : result);
    work.m = m;
    work.n = n;
    work.k = k;
    work.batch = groups;
    return work;
  }

  CsvReader reader_;
  const CsvTable& table_;
};

// ---- Names of GPUs ----

std::vector<std::string> WordsOf(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name.substr(0, name.find('('))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  const auto is_brand = [](const std::string& word) {
    return word == "nvidia" || word == "tesla" || word == "geforce";
  };
  words.erase(std::remove_if(words.begin(), words.end(), is_brand), words.end());
  return words;
}

struct GpuName {
  std::string name;    // "h800", as written
  std::string family;  // "h100", "rtx4090": the chip
  std::string form;    // "pcie", "sxm" or ""
  std::vector<std::string> rest;
};

GpuName ParseGpuName(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSameChip = {
      {{"h800", "h100"}, {"a800", "a100"}, {"gh200", "h200"}}};
  std::vector<std::string> words = WordsOf(text);
  GpuName name;
  if (words.empty()) return name;
  name.family = words.front();
  std::size_t used = 1;
  if (name.family == "rtx" && words.size() > 1) name.family += words[used++];
  name.name = name.family;
  for (const auto& [variant, origin] : kSameChip) {
    if (name.family == variant) name.family = origin;
  }
  for (; used < words.size(); ++used) {
    if (words[used].substr(0, 3) == "sxm" || words[used] == "pcie") {
      name.form = words[used].substr(0, words[used] == "pcie" ? 4 : 3);
    } else {
      name.rest.push_back(words[used]);
    }
  }
  return name;
}

}  // namespace

KernelTable ReadKernelTable(const CsvTable& table) { return TableReader(table).Read(); }

std::optional<std::size_t> MatchGpu(const std::string& name, const std::vector<std::string>& gpus) {
  const GpuName wanted = ParseGpuName(name);
  std::optional<std::size_t> best;
  int best_score = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const GpuName candidate = ParseGpuName(gpus[i]);
    if (wanted.family.empty() || candidate.family != wanted.family) continue;
    int score = wanted.name == candidate.name ? 20 : 0;
    if (!wanted.form.empty() && !candidate.form.empty()) {
      score += wanted.form == candidate.form ? 10 : -10;
    }
    for (const std::string& word : wanted.rest) {
      const auto& rest = candidate.rest;
      score += std::find(rest.begin(), rest.end(), word) != rest.end() ? 1 : 0;
    }
    if (best.has_value() && score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

}  // namespace stepsim
