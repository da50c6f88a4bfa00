// Who measures? `stepsim-calibrate`, a program of its own: it needs CUDA, NCCL or MPI, which
// stepsim does not.
#pragma once

#include <string>

#include "tools/stepsim/command.h"

namespace stepsim {

// The program beside `executable`, in the folders of a build around it, or in PATH; "": nowhere.
std::string FindMeasuringProgram(const std::string& executable);

// Runs it with the words that follow `calibrate`, and waits. Throws ChildFailed with its status
// where that is not 0, std::runtime_error with one sentence where it cannot be found or started.
void StartMeasuringProgram(const Session& session);

}  // namespace stepsim
