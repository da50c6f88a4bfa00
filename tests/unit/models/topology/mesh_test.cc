#include "models/topology/mesh.h"

#include <gmock/gmock.h>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// 64 GPUs: tp 2, cp 2, dp 4, pp 4.
ParallelPlan Plan(const std::string& order = "tp-cp-dp-pp") {
  ParallelPlan plan;
  plan.tensor_parallel = 2;
  plan.context_parallel = 2;
  plan.pipeline_parallel = 4;
  plan.mesh_order = order;
  return plan;
}

TEST(Mesh, FirstAxisIsInnermost) {
  const Mesh mesh(Plan(), 64);
  EXPECT_EQ(mesh.Size(MeshAxis::kData), 4);
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kTensor}), ElementsAre(6, 7));
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kContext}), ElementsAre(4, 6));
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kData}), ElementsAre(2, 6, 10, 14));
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kPipeline}), ElementsAre(6, 22, 38, 54));
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kContext, MeshAxis::kData}),
              ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_EQ(mesh.Moved(6, MeshAxis::kPipeline, 2), 38);
}

// Megatron-LM's --use-tp-pp-dp-mapping.
TEST(Mesh, OrderDecidesWhoAreNeighbours) {
  const Mesh mesh(Plan("tp-cp-pp-dp"), 64);
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kPipeline}), ElementsAre(2, 6, 10, 14));
  EXPECT_THAT(mesh.Peers(6, {MeshAxis::kData}), ElementsAre(6, 22, 38, 54));
}

TEST(Mesh, EveryOrderCoversEveryRankOnce) {
  for (const char* order : {"tp-cp-dp-pp", "pp-dp-cp-tp", "dp-tp-pp-cp"}) {
    const Mesh mesh(Plan(order), 64);
    for (std::int64_t r = 0; r < 64; ++r) {
      EXPECT_EQ(mesh.Peers(r, {MeshAxis::kTensor, MeshAxis::kContext, MeshAxis::kData,
                               MeshAxis::kPipeline})
                    .size(),
                64u);
      for (const MeshAxis axis :
           {MeshAxis::kTensor, MeshAxis::kContext, MeshAxis::kData, MeshAxis::kPipeline}) {
        EXPECT_EQ(mesh.Moved(r, axis, mesh.PlaceOf(r, axis)), r);
      }
    }
  }
}

TEST(Mesh, RefusesWhatIsNoOrder) {
  for (const char* order :
       {"", "tp", "tp-cp-dp", "tp-cp-dp-dp", "tp-cp-dp-pp-", "tp-cp-dp-xx", "tp-cp-dp-pp-tp"}) {
    EXPECT_THAT(ParseMeshOrder(order), IsEmpty()) << order;
  }
  EXPECT_EQ(ParseMeshOrder("pp-tp-cp-dp").front(), MeshAxis::kPipeline);
}

// The 16 ranks of a stage as 1 x 8 x 2: experts over neighbours, copies of them eight ranks apart.
TEST(Mesh, ExpertsLieAcrossTheOtherAxesOfAStage) {
  ParallelPlan plan = Plan();
  plan.expert_parallel = 8;
  plan.expert.tensor_parallel = 1;
  const Mesh mesh(plan, 64);
  EXPECT_THAT(mesh.ExpertPeers(17, ExpertAxis::kExpert),
              ElementsAre(16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_THAT(mesh.ExpertPeers(17, ExpertAxis::kData), ElementsAre(17, 25));
  plan.expert.tensor_parallel = 0;  // as the others: 2
  plan.expert_parallel = 4;
  const Mesh cut(plan, 64);
  EXPECT_THAT(cut.ExpertPeers(17, ExpertAxis::kTensor), ElementsAre(16, 17));
  EXPECT_THAT(cut.ExpertPeers(17, ExpertAxis::kExpert), ElementsAre(17, 19, 21, 23));
}

}  // namespace
}  // namespace stepsim
