// Which facts does a summary for people show? Selected once, for the terminal and for Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/metrics/step_report.h"

namespace stepsim {

// The parts that add up to the step, in the order of the accounting identity.
struct StepPart {
  std::string_view name;  // "peer wait"
  Duration time{};
};
std::vector<StepPart> StepParts(const RankAccount& account);

// The sites with exposed time, in report order.
std::vector<StepPart> ExposedSites(const RankAccount& account);

// The collectives with the most exposed time, largest first, at most `limit`. What they wait for
// other stages of their pipeline is bubble, and does not count.
std::vector<const CollectiveReport*> LargestExposed(const StepReport& report, std::size_t limit);

// "all_reduce bucket 5"; with its micro-step where several of them have a collective of this name.
std::string CollectiveTitle(const StepReport& report, const CollectiveReport& collective);

// The last micro-step that reduces, when there are several micro-steps; else nullptr.
const MicrostepReport* ReducingMicrostep(const StepReport& report);

// The simulated ranks of a pipeline beside each other, in rank order; no rows unless they differ.
// Of more than kMostStageRows the first, the last and those with the least and the most of each
// part. What no rank has, has no column.
//
//   stage       compute       exposed         bubble  in flight    memory
//   pp 3   5.02 s 70.6%  1.47 s 20.6%   597 ms  8.4%         30  52.1 GiB
struct StageTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
inline constexpr std::size_t kMostStageRows = 16;
StageTable StagesOf(const StepReport& report);

// "closed form (equal stages): bubble 27.3% = (p-1)(tF+tB)"; "" where none holds.
std::string ClosedFormBubble(const StepReport& report);

// Categories of memory at the peak in words ("optimizer states"), largest first, without empty
// ones.
std::vector<std::pair<std::string, Bytes>> LargestMemory(const MemoryReport& memory);

// "layers.0.qkv.wgrad", with its micro-step where there are several; "" when it is not known.
std::string PeakPlace(const StepReport& report);

// Whom the reported rank speaks for: "rank 0 stands for 16 identical ranks"; "" for a single GPU.
std::string RankRemark(const StepReport& report);

// "41.2%"
std::string FormatShare(double share);
std::string FormatShare(Duration part, Duration whole);
// How much shorter the whole would be at most without a part: "-12.1%", "0.0%".
std::string FormatReduction(Duration part, Duration whole);
// "10,234" or, of small numbers, three digits: "3.21".
std::string FormatRate(double rate);

}  // namespace stepsim
