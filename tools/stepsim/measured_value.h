// How does a user write a share or a time on the command line? "5%", "0.05"; "4.6s", "1200 ms".
#pragma once

#include <string>

namespace stepsim {

// A fraction in (0, 1]; `option` names the place in the ConfigError.
double ParseShare(const std::string& text, const std::string& option);
// Seconds, above 0.
double ParseSeconds(const std::string& text, const std::string& option);

}  // namespace stepsim
