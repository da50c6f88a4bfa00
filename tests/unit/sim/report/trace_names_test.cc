#include "sim/report/trace_names.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stepsim {
namespace {

CollectiveWork WorkOf(CollectiveOp op, DType dtype = DType::kBf16) {
  return {.op = op, .dtype = dtype, .bytes = {4096}, .group = {}};
}

// NCCL's own kernel names: operation, then operator and type where it reduces, then algorithm and
// protocol.
TEST(TraceNames, CollectivesAreNamedAsNcclNamesItsKernels) {
  const CollectiveChoice ring{"ring", "simple"};
  const auto name = [](const CollectiveWork& work, const CollectiveChoice& choice) {
    const std::string full = CollectiveKernelName(work, choice);
    const std::size_t arguments = full.find("(ncclDevKernelArgsStorage<4096ul>)");
    EXPECT_NE(arguments, std::string::npos) << full;
    return full.substr(0, arguments);
  };
  EXPECT_EQ(name(WorkOf(CollectiveOp::kAllReduce), ring),
            "ncclDevKernel_AllReduce_Sum_bf16_RING_SIMPLE");
  EXPECT_EQ(name(WorkOf(CollectiveOp::kReduceScatter, DType::kFp16), {"ring", "ll128"}),
            "ncclDevKernel_ReduceScatter_Sum_f16_RING_LL128");
  EXPECT_EQ(name(WorkOf(CollectiveOp::kAllGather), ring), "ncclDevKernel_AllGather_RING_SIMPLE");
  EXPECT_EQ(name(WorkOf(CollectiveOp::kBroadcast), ring), "ncclDevKernel_Broadcast_RING_SIMPLE");
  EXPECT_EQ(name(WorkOf(CollectiveOp::kSendRecv), ring), "ncclDevKernel_SendRecv");
  EXPECT_EQ(name(WorkOf(CollectiveOp::kAllToAll), ring), "ncclDevKernel_SendRecv");
  EXPECT_EQ(name(WorkOf(CollectiveOp::kAllReduce, DType::kFp8), {}),
            "ncclDevKernel_AllReduce_Sum_f8e4m3");
}

TEST(TraceNames, ComputeIsNeverTakenForSomethingElse) {
  for (const std::string word : {"Memcpy", "Memset", "Sync", "dma", "nccl", "NCCL", "memcpy"}) {
    for (const std::string& label : {word, "a." + word + "Norm", "x" + word + word}) {
      EXPECT_TRUE(NeedsRenaming(label)) << label;
      const std::string name = ComputeKernelName(label);
      EXPECT_EQ(name.find(word), std::string::npos) << name;
      EXPECT_FALSE(NeedsRenaming(name)) << name;
    }
  }
  EXPECT_EQ(ComputeKernelName("SyncBatchNorm"), "S_yncBatchNorm");
  EXPECT_FALSE(NeedsRenaming("layer3.mlp.fc1.wgrad"));
  EXPECT_EQ(ComputeKernelName("layer3.mlp.fc1.wgrad"), "layer3.mlp.fc1.wgrad");
}

// nccl-tests counts the gathered buffer of an all-gather and the scattered one of a reduce-scatter;
// 4096 bytes of bf16 are 2048 elements, an eighth of them is 256.
TEST(TraceNames, ElementsInAndOut) {
  const auto elements = [](CollectiveOp op) {
    const MessageElements e = ElementsOf(WorkOf(op), 8);
    return std::pair(e.in, e.out);
  };
  EXPECT_EQ(elements(CollectiveOp::kAllReduce), std::pair(std::int64_t{2048}, std::int64_t{2048}));
  EXPECT_EQ(elements(CollectiveOp::kAllGather), std::pair(std::int64_t{256}, std::int64_t{2048}));
  EXPECT_EQ(elements(CollectiveOp::kReduceScatter),
            std::pair(std::int64_t{2048}, std::int64_t{256}));
  EXPECT_EQ(elements(CollectiveOp::kSendRecv), std::pair(std::int64_t{2048}, std::int64_t{2048}));
}

TEST(TraceNames, LongListsOfRanksAreAbbreviated) {
  ProcessGroup group{.name = "dp", .description = "", .ranks = {}};
  for (int rank = 0; rank < 64; ++rank) group.ranks.push_back(2 * rank);
  EXPECT_EQ(nlohmann::json::parse(GroupRanks(group)).size(), 64u);
  EXPECT_EQ(GroupRanks(group).substr(0, 10), "[0, 2, 4, ");
  group.ranks.push_back(128);
  EXPECT_EQ(GroupRanks(group), "[0, 2, 4, ..., 128]");
}

TEST(TraceNames, ArgumentsAreJson) {
  const ProcessGroup group{.name = "d\"p", .description = "", .ranks = {0, 1, 2, 3}};
  const std::string text = CollectiveArguments(WorkOf(CollectiveOp::kAllGather), group);
  const nlohmann::json args = nlohmann::json::parse("{\"first\":1" + text + "}");
  EXPECT_EQ(args.at("Collective name"), "_allgather_base");
  EXPECT_EQ(args.at("Process Group Name"), "d\"p");
  EXPECT_EQ(args.at("Process Group Description"), "");
  EXPECT_EQ(args.at("dtype"), "BFloat16");
  EXPECT_EQ(args.at("Group size"), 4);
  EXPECT_EQ(args.at("In msg nelems"), 512);
  // A text, as in every recorded trace with this argument.
  EXPECT_EQ(args.at("Process Group Ranks"), "[0, 1, 2, 3]");
}

}  // namespace
}  // namespace stepsim
