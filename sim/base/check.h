// What is a bug? SIM_CHECK states an invariant of ours. It is always on: a wrong number costs users
// days, a clear crash costs minutes. Input is never checked with it (that is diagnostics.h).
#pragma once

#include <stdexcept>
#include <string>

namespace stepsim {

// A broken invariant of the program itself. The command line exits with status 1.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void FailCheck(const char* condition, const char* file, int line,
                            const std::string& message);

}  // namespace stepsim

#define SIM_CHECK(condition, message)                                                  \
  do {                                                                                 \
    if (!(condition)) ::stepsim::FailCheck(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
