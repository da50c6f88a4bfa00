// What is wrong with the input, where, and what would be right?
//
// User mistakes are collected, all of them, and thrown once:
//   job.yaml:7:3: plan.strategy: found 'dpp', allowed: ddp; did you mean 'ddp'?
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace stepsim {

// A place in the input. Lines and columns count from 1; line 0 means "the file as a whole".
struct Place {
  std::string file;
  int line = 0;
  int column = 0;

  std::string ToString() const;  // "job.yaml:7:3", "job.yaml", or "" when unknown
};

struct Diagnostic {
  Place place;
  std::string message;
  // A key without effect ("plan.ddp"): without it this is no problem.
  std::string idle_key = {};

  std::string ToString() const;  // "job.yaml:7:3: message"
};

// The input is wrong (exit status 2). Holds every problem found, in reading order.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  ConfigError(Place place, std::string message);

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// The input is well-formed but the job cannot run: deadlock, out of memory (exit status 3).
class SimulationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Collects problems while reading; ThrowIfAny() ends the reading.
class Diagnostics {
 public:
  void Add(Place place, std::string message, std::string idle_key = {});
  bool empty() const { return list_.empty(); }
  const std::vector<Diagnostic>& list() const { return list_; }
  void ThrowIfAny() const;  // throws ConfigError with all of them

 private:
  std::vector<Diagnostic> list_;
};

}  // namespace stepsim
