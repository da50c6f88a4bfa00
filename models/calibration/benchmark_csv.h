// What did other benchmarks measure? Collectives of MPI or gloo and matrix products as CSV, under
// the column names that people use.
//
//   op,bytes,world,median_us           m,n,k,dtype,tflops
//   all_reduce,1048576,2,9312.4        4096,4096,4096,bf16,612.0
//
// To read another column name or another way to count: a row in the tables of the .cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/calibration/measurements.h"

namespace stepsim {

struct CsvSelection {
  // Only rows whose column has this value: {"link", "lo"}.
  struct Where {
    std::string column, value;
  };
  std::vector<Where> where;
  std::string backend = "mpi";  // of collectives
  std::int64_t nodes = 1;       // where no column says it
};

// A file may hold several tables, each behind its own header; those without the needed columns are
// left out, with a note. Throws ConfigError: no such table, every wrong value, rows of several
// systems at once (a column `link` or `label` with more than one value).
Measurements ReadCollectiveCsv(std::string_view text, const std::string& file_name,
                               const CsvSelection& selection = {});
// One table: m, n, k, dtype, and a time or a rate.
Measurements ReadGemmCsv(std::string_view text, const std::string& file_name,
                         const CsvSelection& selection = {});

}  // namespace stepsim
