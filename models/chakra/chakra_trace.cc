#include "models/chakra/chakra_trace.h"

#include <chakra.pb.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr std::array<std::string_view, 11> kKinds = {
    "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
    "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE",
    "STORAGE_NODE", "BATCH_NODE",     "CHECKPOINT_NODE"};

constexpr std::string_view kAllowed =
    "allowed: a Chakra execution trace (protobuf messages behind their lengths: GlobalMetadata, "
    "then nodes)";

// The largest number that a quantity of a trace may have: sums of millions still fit.
constexpr double kMost = 1e15;

// The messages of a file, one after the other.
class Messages {
 public:
  Messages(std::string_view bytes, std::string file)
      : bytes_(bytes), size_(bytes.size()), file_(std::move(file)) {}

  bool AtEnd() const { return bytes_.empty(); }
  std::string Where() const { return fmt::format("byte {}", size_ - bytes_.size()); }

  template <class Message>
  Message Next() {
    const std::string where = Where();
    const std::uint64_t length = Length();
    if (length > bytes_.size()) {
      Fail(where,
           fmt::format("found a message of {} bytes where {} are left", length, bytes_.size()));
    }
    Message message;
    if (!message.ParseFromArray(bytes_.data(), static_cast<int>(length))) {
      Fail(where, "found a message that cannot be read");
    }
    bytes_.remove_prefix(length);
    return message;
  }

  [[noreturn]] void Fail(const std::string& where, const std::string& what) const {
    throw ConfigError({file_, 0, 0}, fmt::format("{}: {}, {}", where, what, kAllowed));
  }

 private:
  // Seven bits a byte, the lowest first; the last byte has no eighth. At most 2^31, as protobuf's.
  std::uint64_t Length() {
    const std::string where = Where();
    std::uint64_t length = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      if (bytes_.empty()) Fail(where, "the file ends within a length");
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) != 0) continue;
      if (length > std::numeric_limits<std::int32_t>::max()) break;
      return length;
    }
    Fail(where, "found a length beyond 2^31");
  }

  std::string_view bytes_;
  std::size_t size_;
  std::string file_;
};

// ---- Attributes ----

double NumberOf(const chakra::Attribute& a) {
  switch (a.value_case()) {
    case chakra::Attribute::kNumber64:
      return a.number64();
    case chakra::Attribute::kNumber32:
      return static_cast<double>(a.number32());
    case chakra::Attribute::kSigned32:
      return a.signed32();
    case chakra::Attribute::kSigned64:
      return static_cast<double>(a.signed64());
    case chakra::Attribute::kUnsigned32:
      return a.unsigned32();
    case chakra::Attribute::kUnsigned64:
      return static_cast<double>(a.unsigned64());
    case chakra::Attribute::kZigzag32:
      return a.zigzag32();
    case chakra::Attribute::kZigzag64:
      return static_cast<double>(a.zigzag64());
    case chakra::Attribute::kFixed32Value:
      return a.fixed32_value();
    case chakra::Attribute::kFixed64Value:
      return static_cast<double>(a.fixed64_value());
    case chakra::Attribute::kSfixed32Value:
      return a.sfixed32_value();
    case chakra::Attribute::kSfixed64Value:
      return static_cast<double>(a.sfixed64_value());
    case chakra::Attribute::kTruth:
      return a.truth() ? 1 : 0;
    case chakra::Attribute::kText:
    case chakra::Attribute::VALUE_NOT_SET:
      return std::nan("");
  }
  return std::nan("");
}

// Each attribute that is read, and where it goes.
struct AttributeRow {
  std::string_view name;
  std::int64_t ChakraNode::*member;
};
constexpr std::array kNumbers = {
    AttributeRow{"num_ops", &ChakraNode::flops},
    AttributeRow{"tensor_size", &ChakraNode::bytes},
    AttributeRow{"comm_size", &ChakraNode::transfer_bytes},
    AttributeRow{"comm_type", &ChakraNode::collective},
    AttributeRow{"comm_tag", &ChakraNode::tag},
    AttributeRow{"stream", &ChakraNode::stream},
};

class NodeReader {
 public:
  NodeReader(const Messages& messages, std::string where, const chakra::Node& from)
      : messages_(messages), where_(std::move(where)), from_(from) {}

  ChakraNode Read() {
    node_.id = from_.id();
    node_.name = from_.name();
    if (from_.type() < 0 || from_.type() >= static_cast<int>(kKinds.size())) {
      Fail(fmt::format("found node type {}", from_.type()));
    }
    node_.kind = static_cast<ChakraKind>(from_.type());
    node_.start_us = from_.start_us();
    node_.duration_us = from_.duration_us();
    constexpr std::uint64_t kDay = 86'400'000'000;
    if (node_.duration_us > kDay) {
      Fail(fmt::format("found a duration of {} us, more than a day", node_.duration_us));
    }
    node_.after.assign(from_.data_dependencies().begin(), from_.data_dependencies().end());
    node_.after.insert(node_.after.end(), from_.control_dependencies().begin(),
                       from_.control_dependencies().end());
    std::sort(node_.after.begin(), node_.after.end());
    node_.after.erase(std::unique(node_.after.begin(), node_.after.end()), node_.after.end());
    for (const chakra::Attribute& attribute : from_.attributes()) Take(attribute);
    return std::move(node_);
  }

 private:
  void Take(const chakra::Attribute& attribute) {
    const std::string& name = attribute.name();
    if (name == "pg_name") {
      node_.group = attribute.text();
    } else if (name == "is_cpu_op") {
      node_.is_host = NumberOf(attribute) != 0;
    } else if (name == (node_.kind == ChakraKind::kSend ? "comm_dst" : "comm_src")) {
      node_.peer = Whole(attribute);
    }
    for (const AttributeRow& row : kNumbers) {
      if (row.name == name) node_.*row.member = Whole(attribute);
    }
  }

  std::int64_t Whole(const chakra::Attribute& attribute) const {
    const double number = NumberOf(attribute);
    if (!(number >= -1 && number <= kMost)) {
      Fail(fmt::format("{}: found {}", attribute.name(),
                       std::isnan(number) ? "no number" : fmt::format("{}", number)));
    }
    return static_cast<std::int64_t>(number);
  }

  [[noreturn]] void Fail(const std::string& what) const {
    messages_.Fail(fmt::format("{}: node {}", where_, from_.id()), what);
  }

  const Messages& messages_;
  std::string where_;
  const chakra::Node& from_;
  ChakraNode node_;
};

// What a node waits for must exist; metadata is no task, so that nothing can wait for it.
void CheckNodes(const ChakraTrace& trace) {
  std::set<std::uint64_t> ids;
  Diagnostics diagnostics;
  const Place place{trace.file, 0, 0};
  for (const ChakraNode& node : trace.nodes) {
    if (!ids.insert(node.id).second) {
      diagnostics.Add(place, fmt::format("node {}: found twice, allowed: once", node.id));
    }
  }
  for (const ChakraNode& node : trace.nodes) {
    for (const std::uint64_t before : node.after) {
      if (ids.count(before) == 0) {
        diagnostics.Add(place, fmt::format("node {}: depends on node {}, which the file does not "
                                           "have",
                                           node.id, before));
      }
    }
    constexpr std::size_t kMostProblems = 20;
    if (diagnostics.list().size() >= kMostProblems) break;
  }
  diagnostics.ThrowIfAny();
}

}  // namespace

std::string_view ToString(ChakraKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

ChakraTrace ReadChakra(std::string_view bytes, const std::string& file) {
  Messages messages(bytes, file);
  if (messages.AtEnd()) messages.Fail("byte 0", "found an empty file");
  ChakraTrace trace;
  trace.file = file;
  trace.version = messages.Next<chakra::Header>().version();
  while (!messages.AtEnd()) {
    const std::string where = messages.Where();
    const auto node = messages.Next<chakra::Node>();
    trace.nodes.push_back(NodeReader(messages, where, node).Read());
  }
  if (trace.nodes.empty()) messages.Fail(messages.Where(), "found no nodes");
  CheckNodes(trace);
  return trace;
}

}  // namespace stepsim
