// Does a Hugging Face config.json describe the network that the library builds from it? Counts: the
// table in tests/data/hf/README.md.
#include <gtest/gtest.h>

#include <string>

#include "models/spec/load_job.h"
#include "models/workload/workload.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

std::int64_t CountOf(const std::string& text) {
  JobSpec job;
  job.model = LoadModelText(text, "config.json");
  return BuildWorkload(job).parameter_count();
}

std::int64_t CountOfFile(const std::string& name) {
  return CountOf(testing::ReadRepositoryFile("tests/data/hf/" + name));
}

TEST(HfFiles, HaveTheirLibrarysParameters) {
  EXPECT_EQ(CountOfFile("llama-3.2-3b.json"), 3'212'749'824);
  EXPECT_EQ(CountOfFile("gpt2.json"), 124'439'808);
  EXPECT_EQ(CountOfFile("bert-base.json"), 109'514'298);
  EXPECT_EQ(CountOfFile("qwen2-7b.json"), 7'615'616'512);
}

// The class decides which heads there are: BertModel has the pooler and no decoder.
TEST(HfFiles, TheArchitectureDecidesTheHeads) {
  std::string text = testing::ReadRepositoryFile("tests/data/hf/bert-base.json");
  const std::string masked = "BertForMaskedLM";
  const std::size_t at = text.find(masked);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(CountOf(text.replace(at, masked.size(), "BertModel")), 109'482'240);
}

// A job names such a file as it names any other.
TEST(HfFiles, AreModelsOfAJob) {
  const ResolvedJob resolved =
      testing::LoadText("model: " + testing::RepositoryPath("tests/data/hf/llama-3.2-3b.json") +
                        "\nhardware: a100-80g-dgx\nbatch: {sequence_length: 4096}\n");
  EXPECT_EQ(BuildWorkload(resolved.job).parameter_count(), 3'212'749'824);
}

}  // namespace
}  // namespace stepsim
