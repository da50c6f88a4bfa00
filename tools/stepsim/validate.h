// stepsim validate: what it was asked, and one function per kind of table.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/stepsim/command.h"

namespace stepsim {

struct ValidateOptions {
  std::string kind;  // "collectives", "kernels", "memory", "ddp", "steps"
  std::vector<std::string> tables;
  std::string jobs_path;  // ddp
  std::string calibrate = "none";
  std::string leave_one_out;  // "", "system" (collectives), "shape" (kernels)
  std::string corrections = "nccl";
  std::string nccl_version;  // "": as the table says
  std::string export_path;
  std::string fit_path;
  std::optional<double> most_median;  // percent; memory, ddp
  // steps
  std::string where;            // "": all rows
  std::vector<std::string> by;  // columns
  std::size_t jobs = 0;         // threads; 0: all

  const std::string& table() const { return tables.front(); }
};

constexpr std::size_t kWorst = 10;  // points that a report names

// Cells of an exported point.
std::string MicrosecondsText(double seconds);  // "21.3457"
std::string PercentText(double fraction);      // "-4.321"

// Text of a table; throws ConfigError where there is none.
std::string ReadTable(const std::string& path);

void ValidateCollectives(const ValidateOptions& options, const Session& session);
void ValidateKernels(const ValidateOptions& options, const Session& session);
void ValidateMemory(const ValidateOptions& options, const Session& session);
void ValidateDdp(const ValidateOptions& options, const Session& session);
void ValidateSteps(const ValidateOptions& options, const Session& session);

// Throws where an option was given that only collectives and kernels have.
void RefuseFitOptions(const ValidateOptions& options);

// Throws CheckFailed where the median of |error| is more than the user allows.
void CheckMedian(const ValidateOptions& options, double median);

}  // namespace stepsim
