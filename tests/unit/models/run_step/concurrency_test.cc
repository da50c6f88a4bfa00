// Two simulations may run in two threads and still say the same, byte for byte. Meant for
// ThreadSanitizer too: loading, simulating and writing share no state.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "models/run_step.h"
#include "sim/report/writer.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

// From the file's text to the text of the result and of the trace.
std::string Everything(const std::string& job) {
  const StepResult step = RunStep(testing::LoadShipped(job));
  const Result result{step.graph, step.timeline, step.report};
  std::string text = TerminalSummary(step.report, /*colour=*/true);
  for (const Writer& writer : Writers()) {
    writer.write(result, [&](std::string_view piece) { text += piece; });
  }
  return text;
}

TEST(Concurrency, ThreadsGiveTheSameResults) {
  const std::vector<std::string> jobs = {"gpt2_ddp_8xa100", "resnet-50_ddp_8xv100",
                                         "gpt2_ddp_8xa100", "lesson_bucketed"};
  std::vector<std::string> in_threads(jobs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] { in_threads[i] = Everything(jobs[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(in_threads[i], Everything(jobs[i]));
}

}  // namespace
}  // namespace stepsim
