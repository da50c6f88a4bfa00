// Which algorithms or protocols does the job allow NCCL? The grammar of NCCL_ALGO and NCCL_PROTO:
//
//   ring                                 only that one, for every collective
//   ^tree                                everything but that
//   allreduce:tree,ring;allgather:ring   lists by collective
//
// Case, "_" and "-" do not matter. A list without a collective holds where no other one does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

struct NcclNameList {
  std::string collective;  // "all_reduce"; "": every other one
  bool is_negated = false;
  std::vector<std::string> names;  // canonical: "nvls_tree", "ll128"
};

struct NcclChoice {
  std::vector<NcclNameList> lists;
  std::vector<std::string>
      problems;  // "found 'rnig', allowed: tree, ring, ...; did you mean 'ring'?"

  // The list that holds for a collective; null: NCCL chooses.
  const NcclNameList* ListFor(std::string_view collective) const;
};

NcclChoice ParseNcclAlgorithms(std::string_view text);
NcclChoice ParseNcclProtocols(std::string_view text);

struct NcclRelease {
  int major = 0;
  int minor = 0;
};
// Of "2.18", "2.27.3" or "2.18.5+"; nothing for any other text.
std::optional<NcclRelease> ParseNcclRelease(std::string_view text);

// Names that one can ask for; the last two are not NCCL's own: never chosen unless asked for.
std::span<const std::string_view> NcclAlgorithmNames();
std::span<const std::string_view> NcclProtocolNames();

}  // namespace stepsim
