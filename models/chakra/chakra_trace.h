// What does a Chakra execution trace say? The nodes of one rank: kernels, transfers, what the host
// does, and what waits for what.
//
//   ChakraTrace trace = ReadChakra(bytes, "llama.0.et");
//
// The file: messages of protobuf, each behind its length as a varint; first a header, then nodes
// (MLCommons' et_def.proto). One file is one rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

// In the order of NodeType.
enum class ChakraKind : std::uint8_t {
  kInvalid,
  kMetadata,
  kMemoryLoad,
  kMemoryStore,
  kCompute,
  kSend,
  kReceive,
  kCollective,
  // Files and batches: no work of a GPU, an instant here.
  kStorage,
  kBatch,
  kCheckpoint,
};
std::string_view ToString(ChakraKind kind);  // "COMP_NODE", ...

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraKind kind = ChakraKind::kInvalid;
  std::vector<std::uint64_t> after;  // nodes of this rank that come before
  std::uint64_t start_us = 0;        // as recorded
  std::uint64_t duration_us = 0;     // as recorded; 0: it was not
  bool is_host = false;              // is_cpu_op
  std::int64_t flops = 0;            // num_ops
  std::int64_t bytes = 0;            // tensor_size
  std::int64_t stream = -1;          // of the GPU, -1: not said
  std::int64_t collective = -1;      // comm_type: CollectiveCommType
  std::int64_t transfer_bytes = 0;   // comm_size: what this rank puts in
  std::int64_t peer = -1;            // comm_dst of a send, comm_src of a receive
  std::int64_t tag = 0;              // comm_tag
  std::string group;                 // pg_name, "" for all ranks
};

struct ChakraTrace {
  std::string file;
  std::string version;
  std::vector<ChakraNode> nodes;      // in the file's order
  std::vector<std::string> warnings;  // what was left out
};

// Throws ConfigError: no such file's form, cut off, two nodes of one id, a dependency on none.
ChakraTrace ReadChakra(std::string_view bytes, const std::string& file);

}  // namespace stepsim
