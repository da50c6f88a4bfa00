// Which algorithm and protocol NCCL takes, and what a job can say about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/cost/collective_cost.h"
#include "sim/base/diagnostics.h"
#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

std::string Choice(const HardwareSpec& hardware, const Placement& placement, std::int64_t bytes,
                   const CollectiveModelSpec& spec = Nccl(),
                   CollectiveOp op = CollectiveOp::kAllReduce, DType dtype = DType::kFp32) {
  const CollectiveCost cost =
      CollectivePricer(hardware, spec)({op, Bytes{bytes}, dtype, placement});
  return std::string(cost.algorithm) + " " + std::string(cost.protocol);
}

struct Range {
  std::int64_t first, last;  // powers of two
  std::string choice;
};

void ExpectChoices(const HardwareSpec& hardware, const Placement& placement,
                   const std::vector<Range>& ranges) {
  for (const Range& range : ranges) {
    for (std::int64_t bytes = range.first; bytes <= range.last; bytes *= 2) {
      EXPECT_EQ(Choice(hardware, placement, bytes), range.choice) << bytes;
    }
  }
}

// The switch points of the published 2.30 table on these systems.
TEST(NcclSelection, EightA100) {
  ExpectChoices(DgxA100(), Nodes(1),
                {{8, 2 * kMiB, "ring ll"},
                 {4 * kMiB, 16 * kMiB, "ring ll128"},
                 {32 * kMiB, 8 * kGiB, "ring simple"}});
}
TEST(NcclSelection, EightH100) {
  ExpectChoices(DgxH100(), Nodes(1), {{8, kMiB, "ring ll"}, {2 * kMiB, 8 * kGiB, "nvls simple"}});
}
TEST(NcclSelection, TwoNodesOfH100) {
  ExpectChoices(DgxH100(), Nodes(2),
                {{8, 128 * kKiB, "tree ll"},
                 {256 * kKiB, 2 * kMiB, "tree ll128"},
                 {4 * kMiB, 8 * kGiB, "nvls_tree simple"}});
}
TEST(NcclSelection, SixteenNodesOfH100) {
  ExpectChoices(DgxH100(), Nodes(16),
                {{8, 128 * kKiB, "tree ll"},
                 {256 * kKiB, 16 * kMiB, "tree ll128"},
                 {32 * kMiB, 8 * kGiB, "nvls_tree simple"}});
}

// Measured with NCCL 2.27.7 at 8 GiB (stas00/ml-engineering): H200 reduces in the switch from five
// GPUs on (414 GB/s against the ring's 363), B200 from six on (778 against 675).
TEST(NcclSelection, TheSwitchTakesOverWithMoreGpus) {
  const CollectiveModelSpec spec = Nccl("2.27.7");
  for (std::int64_t gpus = 2; gpus <= 8; ++gpus) {
    EXPECT_EQ(Choice(DgxH100(), Nodes(1, gpus), 8 * kGiB, spec),
              gpus >= 5 ? "nvls simple" : "ring simple")
        << gpus;
    EXPECT_EQ(Choice(DgxB200(), Nodes(1, gpus), 8 * kGiB, spec),
              gpus >= 6 ? "nvls simple" : "ring simple")
        << gpus;
  }
}

// "H200 uses LL up to 1 MiB and NVLS from 2 MiB" (same source).
TEST(NcclSelection, TheSwitchTakesOverWithLargerSizes) {
  EXPECT_EQ(Choice(DgxH100(), Nodes(1), kMiB, Nccl("2.27.7")), "ring ll");
  EXPECT_EQ(Choice(DgxH100(), Nodes(1), 2 * kMiB, Nccl("2.27.7")), "nvls simple");
}

TEST(NcclSelection, OneRankPerNodeGathersByPat) {
  EXPECT_EQ(Choice(DgxH100(), Nodes(64, 1), kMiB, Nccl(), CollectiveOp::kAllGather), "pat simple");
  EXPECT_THAT(Choice(DgxH100(), Nodes(64, 1), kMiB, Nccl("2.22"), CollectiveOp::kAllGather),
              HasSubstr("ring"));
}

// Each step of a ring rounds: fp8 sums over more than eight ranks avoid it.
TEST(NcclSelection, LongRingsDoNotAddFp8) {
  const auto choice = [](DType dtype) {
    return Choice(DgxA100(), Nodes(2), kGiB, Nccl(), CollectiveOp::kAllReduce, dtype);
  };
  EXPECT_EQ(choice(DType::kBf16), "ring simple");
  EXPECT_EQ(choice(DType::kFp8), "tree simple");
}

// ---- What a job can say ----

TEST(Overrides, NcclAlgo) {
  CollectiveModelSpec spec = Nccl();
  const auto at = [&](std::int64_t bytes, CollectiveOp op = CollectiveOp::kAllReduce) {
    return Choice(DgxH100(), Nodes(1), bytes, spec, op);
  };
  spec.algorithm = "tree";
  EXPECT_EQ(at(kGiB), "tree simple");
  EXPECT_THAT(at(kGiB, CollectiveOp::kBroadcast), HasSubstr("ring"));  // it knows nothing else
  spec.algorithm = "^NVLS";
  EXPECT_EQ(at(kGiB), "ring simple");
  spec.algorithm = "allreduce:tree;allgather:ring";
  EXPECT_EQ(at(kGiB), "tree simple");
  EXPECT_EQ(at(kGiB, CollectiveOp::kAllGather), "ring simple");
  spec.all_reduce = "ring";  // the more particular key
  EXPECT_EQ(at(kGiB), "ring simple");
}

TEST(Overrides, NcclProto) {
  CollectiveModelSpec spec = Nccl();
  spec.protocol = "simple";
  EXPECT_EQ(Choice(DgxA100(), Nodes(1), 8, spec), "ring simple");
  spec.protocol = "^ll";
  EXPECT_EQ(Choice(DgxA100(), Nodes(1), 8, spec), "tree ll128");  // 31.5 us against 40.6
}

TEST(Overrides, NvlsAndCollNet) {
  CollectiveModelSpec spec = Nccl();
  spec.nvls = false;
  EXPECT_EQ(Choice(DgxH100(), Nodes(1), kGiB, spec), "ring simple");
  spec.collnet = true;
  EXPECT_THAT(Choice(DgxH100(), Nodes(4), 16 * kMiB, spec), HasSubstr("collnet"));
}

// LL128 wants an unbroken path of NVLink and RDMA; a job may insist.
TEST(Overrides, Ll128IsEnabledWhereItIsSafe) {
  HardwareSpec box = NvlinkMachine(8.0, 32, 100, "intel", 1);
  box.intra_node.type = "pcie";
  CollectiveModelSpec spec = Nccl();
  spec.protocol = "ll128";
  EXPECT_THAT(Choice(box, Nodes(1), kMiB, spec), HasSubstr("ll128"));
  for (std::int64_t bytes = 8; bytes < kGiB; bytes *= 4) {
    EXPECT_THAT(Choice(box, Nodes(1), bytes), testing::Not(HasSubstr("ll128")));
  }
}

// AWS's plug-in allowed the Simple protocol only on instances with A100 and V100.
TEST(Overrides, ThePluginOfEfa) {
  HardwareSpec p4d = NvlinkMachine(8.0, 300, 100, "intel", 4);
  p4d.network.link.type = "efa";
  EXPECT_THAT(Choice(p4d, Nodes(2), 8), HasSubstr("simple"));
  EXPECT_THAT(Choice(p4d, Nodes(1), 8), HasSubstr("ll"));
}

std::string Refusal(const CollectiveModelSpec& spec, const Placement& placement,
                    CollectiveOp op = CollectiveOp::kAllReduce) {
  try {
    Choice(DgxA100(), placement, kMiB, spec, op);
  } catch (const ConfigError& error) {
    return error.diagnostics().front().message;
  }
  return "no error";
}

TEST(Overrides, SayWhyNothingIsLeft) {
  CollectiveModelSpec spec = Nccl();
  spec.algorithm = "nvls";
  EXPECT_EQ(Refusal(spec, Nodes(1)),
            "collectives: no algorithm is left for all_reduce over 8 ranks on 1 node: nvls: NVLS "
            "needs an NVLink switch, compute capability 9.0, and two ranks on a node");
  spec.algorithm = "tree,pat";
  EXPECT_EQ(
      Refusal(spec, Nodes(2), CollectiveOp::kAllGather),
      "collectives: no algorithm is left for all_gather over 16 ranks on 2 nodes: tree: a tree "
      "does all_reduce only; pat: PAT needs one rank per node");
  spec.algorithm = "hierarchical";
  EXPECT_THAT(Refusal(spec, Nodes(2), CollectiveOp::kAllGather),
              HasSubstr("2 nodes: hierarchical: it does all_reduce only"));
  spec.algorithm = "collnet_chain";
  EXPECT_THAT(Refusal(spec, Nodes(2)), HasSubstr("collnet_chain: collectives.collnet is false"));
}

TEST(Candidates, AreTheEnabledRowsWithTheChoice) {
  const CollectivePricer price(DgxH100(), Nccl());
  const CollectiveRequest request{CollectiveOp::kAllReduce, Bytes{kGiB}, DType::kBf16, Nodes(1)};
  std::vector<std::string> names;
  double least = 1e9;
  for (const CollectiveCost& cost : price.Candidates(request)) {
    names.push_back(std::string(cost.algorithm) + " " + std::string(cost.protocol));
    least = std::min(least, cost.nccl_seconds);
  }
  EXPECT_THAT(names, testing::ElementsAre("tree ll", "tree ll128", "tree simple", "ring ll",
                                          "ring ll128", "ring simple", "nvls simple"));
  EXPECT_EQ(price(request).nccl_seconds, least);
}

}  // namespace
}  // namespace stepsim
