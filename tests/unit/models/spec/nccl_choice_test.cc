#include "models/spec/nccl_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The spellings are those of NCCL's user guide for NCCL_ALGO and NCCL_PROTO.
TEST(NcclChoice, OneListForAll) {
  const NcclChoice choice = ParseNcclAlgorithms("Ring,NVLSTree");
  EXPECT_THAT(choice.problems, IsEmpty());
  ASSERT_NE(choice.ListFor("all_reduce"), nullptr);
  EXPECT_THAT(choice.ListFor("all_reduce")->names, ElementsAre("ring", "nvls_tree"));
  EXPECT_FALSE(choice.ListFor("all_reduce")->is_negated);
}

TEST(NcclChoice, Negation) {
  const NcclChoice choice = ParseNcclProtocols("^LL128");
  ASSERT_NE(choice.ListFor("all_gather"), nullptr);
  EXPECT_TRUE(choice.ListFor("all_gather")->is_negated);
  EXPECT_THAT(choice.ListFor("all_gather")->names, ElementsAre("ll128"));
}

TEST(NcclChoice, ListsByCollective) {
  const NcclChoice choice =
      ParseNcclAlgorithms("ring;allreduce:tree,collnetdirect; broadcast : ring");
  EXPECT_THAT(choice.problems, IsEmpty());
  EXPECT_THAT(choice.ListFor("all_reduce")->names, ElementsAre("tree", "collnet_direct"));
  EXPECT_THAT(choice.ListFor("broadcast")->names, ElementsAre("ring"));
  EXPECT_THAT(choice.ListFor("all_gather")->names, ElementsAre("ring"));  // the list without one
}

TEST(NcclChoice, NothingIsNoList) {
  EXPECT_EQ(ParseNcclAlgorithms("").ListFor("all_reduce"), nullptr);
  EXPECT_EQ(ParseNcclAlgorithms("allgather:ring").ListFor("all_reduce"), nullptr);
}

TEST(NcclChoice, SaysWhatIsWrong) {
  EXPECT_THAT(ParseNcclAlgorithms("rnig").problems,
              ElementsAre("found 'rnig', allowed: tree, ring, collnet_direct, collnet_chain, nvls, "
                          "nvls_tree, pat, hierarchical, two_level; did you mean 'ring'?"));
  EXPECT_THAT(ParseNcclProtocols("ll,simpel").problems,
              ElementsAre("found 'simpel', allowed: ll, ll128, simple; did you mean 'simple'?"));
  EXPECT_THAT(ParseNcclAlgorithms("allredcue:ring").problems,
              ElementsAre(HasSubstr("did you mean 'all_reduce'?")));
  EXPECT_THAT(ParseNcclAlgorithms("ring;tree").problems,
              ElementsAre("found two lists without a collective, allowed: one"));
  EXPECT_THAT(ParseNcclAlgorithms("allreduce:ring;all_reduce:tree").problems,
              ElementsAre("found two lists for all_reduce"));
  EXPECT_THAT(ParseNcclAlgorithms("ring,").problems, ElementsAre(HasSubstr("found ''")));
  EXPECT_THAT(ParseNcclAlgorithms("^").problems, ElementsAre(HasSubstr("found ''")));
}

TEST(NcclRelease, Reads) {
  EXPECT_EQ(ParseNcclRelease("2.18")->minor, 18);
  EXPECT_EQ(ParseNcclRelease("2.27.3")->minor, 27);
  EXPECT_EQ(ParseNcclRelease("2.18.5+")->minor, 18);
  EXPECT_EQ(ParseNcclRelease("3.0")->major, 3);
  for (const char* text :
       {"", "2", "2.", ".18", "2.18.5.1", "2.x", "v2.18", "2.18 ", "?", "2.99999"}) {
    EXPECT_FALSE(ParseNcclRelease(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace stepsim
