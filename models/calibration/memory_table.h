// What do published memory figures say? A table of training runs with the memory of their fullest
// GPU, each row as a job of the closed form.
//
//   const MemoryTable table = ReadMemoryTable(ParseCsv(text, "memory_published.csv"));
//   EstimateMemory(table.rows[0].job).total / table.rows[0].bytes - 1   // the error
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/calibration/csv_table.h"
#include "models/memory/formula.h"

namespace stepsim {

struct MemoryRow {
  std::string id;
  std::string source;
  std::string model;
  std::string states;     // as written: "zero1"
  std::string recompute;  // as written: "layer_inputs"
  FormulaJob job;
  double bytes = 0;  // published
};

struct UncomputedMemoryRow {
  std::string id;
  std::string source;
  std::vector<std::string> missing;  // columns that the publication leaves open
};

struct MemoryTable {
  std::vector<MemoryRow> rows;
  std::vector<UncomputedMemoryRow> uncomputed;
};

// Columns: kMemoryColumns of memory_table.cc; described in tests/data/README.md. An empty cell is
// something that the publication does not say: the row is set aside, with the columns' names.
// Throws ConfigError with every problem of cells that are filled.
MemoryTable ReadMemoryTable(const CsvTable& table);

}  // namespace stepsim
