// What is fed with hostile bytes? Each reader behind one function, for libFuzzer and for the replay
// of its corpus in the ordinary tests.
#pragma once

#include <string_view>

namespace stepsim {

// A job with all its presets; the bytes are the job. A ConfigError is a correct answer; a crash, a
// hang or an InternalError is not.
void FuzzConfig(std::string_view bytes);

// The bytes are a Hugging Face config.json.
void FuzzHfConfig(std::string_view bytes);

// The bytes are TOML.
void FuzzToml(std::string_view bytes);

// The first line names a framework, the rest is its file, laid over a job.
void FuzzImport(std::string_view bytes);

// The bytes are a table of measurements.
void FuzzCsv(std::string_view bytes);

// The bytes are a table of measured collectives: read, mapped to machines, fitted and predicted.
void FuzzMeasuredTable(std::string_view bytes);

// The bytes are the tables of a live bucket sweep, with a line "---" between two: read, and every
// link fitted.
void FuzzLiveSweep(std::string_view bytes);

// The bytes are what somebody measured: read by every reader of logs, fitted, written as a
// calibration and read again over a profile.
void FuzzMeasuredLog(std::string_view bytes);

// The bytes are a table of published memory figures: read, and every row that can be is computed.
void FuzzMemoryTable(std::string_view bytes);

// The bytes are a pipeline schedule: read, checked, and, if it can run, replayed, lowered and
// written again.
void FuzzSchedule(std::string_view bytes);

// The bytes are a Chakra execution trace: read, and made a graph of on a machine of two ranks.
void FuzzChakra(std::string_view bytes);

// The bytes are a condition: read, and judged with and without values.
void FuzzCondition(std::string_view bytes);

// The bytes are one or several traces of a profiler: read, and every step accounted for.
void FuzzTrace(std::string_view bytes);

}  // namespace stepsim
