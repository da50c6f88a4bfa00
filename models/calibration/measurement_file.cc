#include "models/calibration/measurement_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "models/calibration/collective_names.h"
#include "sim/base/diagnostics.h"
#include "sim/base/nearest.h"

namespace stepsim {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 16;
constexpr std::size_t kMostProblems = 20;
constexpr double kMostSeconds = 86'400;
constexpr std::int64_t kMostCount = std::int64_t{1} << 50;
constexpr std::string_view kSchema = "stepsim.measurements/1";

// One line's object: takes values by key, notes what is wrong with them.
class LineReader {
 public:
  LineReader(const Json& object, Place place, std::vector<Diagnostic>& problems)
      : object_(object), place_(std::move(place)), problems_(problems) {}

  void Report(const std::string& message) { problems_.push_back({place_, message}); }

  std::string Text(const char* key, bool is_required = false) {
    const Json* value = Find(key, is_required);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>().substr(0, kLongestText);
    Report(fmt::format("{}: found {}, allowed: a text", key, Short(*value)));
    return "";
  }

  bool Flag(const char* key) {
    const Json* value = Find(key, false);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    Report(fmt::format("{}: found {}, allowed: true or false", key, Short(*value)));
    return false;
  }

  std::int64_t Count(const char* key, std::optional<std::int64_t> otherwise = std::nullopt,
                     std::int64_t least = 1) {
    const Json* value = Find(key, !otherwise.has_value());
    if (value == nullptr) return otherwise.value_or(1);
    if (value->is_number()) {
      const double number = value->get<double>();
      if (number >= static_cast<double>(least) && number <= static_cast<double>(kMostCount) &&
          number == std::floor(number)) {
        return static_cast<std::int64_t>(number);
      }
    }
    Report(fmt::format("{}: found {}, allowed: a whole number from {} to {}", key, Short(*value),
                       least, kMostCount));
    return otherwise.value_or(1);
  }

  double Seconds(const char* key, bool is_required = true) {
    const Json* value = Find(key, is_required);
    if (value == nullptr) return 0;
    if (value->is_number()) {
      const double number = value->get<double>();
      const bool is_time = is_required ? number > 0 : number >= 0;
      if (is_time && number <= kMostSeconds) return number;
    }
    Report(fmt::format("{}: found {}, allowed: seconds above 0, up to {}", key, Short(*value),
                       kMostSeconds));
    return 0;
  }

  DType Type(const char* key) {
    const std::string text = Text(key, true);
    if (const std::optional<DType> dtype = ParseDType(text)) return *dtype;
    if (text.rfind("fp8", 0) == 0) return DType::kFp8;
    if (!text.empty()) unknown_type_ = text;
    return DType::kBf16;
  }

  Timing Time() {
    Timing time;
    time.seconds = Seconds("median_s");
    time.p10 = Seconds("p10_s", false);
    time.p90 = Seconds("p90_s", false);
    time.repeats = Count("repeats", 0, 0);
    time.note = Text("note");
    return time;
  }

  // An object inside; null where there is none.
  const Json& Inside(const char* key) {
    static const Json kNothing = Json::object();
    const Json* value = Find(key, true);
    if (value == nullptr) return kNothing;
    if (value->is_object()) return *value;
    Report(fmt::format("{}: found {}, allowed: an object", key, Short(*value)));
    return kNothing;
  }
  LineReader Of(const Json& object) { return {object, place_, problems_}; }
  const Json& object() const { return object_; }
  // A type that no model knows ("fp64"); "": none. The line is left out.
  const std::string& unknown_type() const { return unknown_type_; }

 private:
  static constexpr std::size_t kLongestText = 1000;

  const Json* Find(const char* key, bool is_required) {
    const auto found = object_.find(key);
    if (found != object_.end() && !found->is_null()) return &*found;
    if (is_required) Report(fmt::format("{}: missing", key));
    return nullptr;
  }
  static std::string Short(const Json& value) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() > 40 ? text.substr(0, 40) + "..." : text;
  }

  const Json& object_;
  Place place_;
  std::vector<Diagnostic>& problems_;
  std::string unknown_type_;
};

MeasuredGemm ReadGemmFields(LineReader& line) {
  MeasuredGemm gemm;
  gemm.m = line.Count("m");
  gemm.n = line.Count("n");
  gemm.k = line.Count("k");
  gemm.dtype = line.Type("dtype");
  return gemm;
}

// What the header says of every collective of the file.
struct Group {
  std::int64_t ranks = 1, nodes = 1;
  std::string backend = "nccl";
};

MeasuredCall ReadCallFields(LineReader& line, const Group& group) {
  MeasuredCall call;
  const std::string op = line.Text("op", true);
  if (const std::optional<CollectiveOp> known = CollectiveNamed(op)) {
    call.op = *known;
  } else if (!op.empty()) {
    line.Report(UnknownCollective("op", op));
  }
  call.bytes = line.Count("bytes");
  call.ranks = line.Count("ranks", group.ranks);
  call.nodes = line.Count("nodes", group.nodes);
  call.in_place = line.Flag("in_place");
  call.max_ctas = line.Count("max_ctas", 0, 0);
  call.algorithm = line.Text("algorithm");
  call.protocol = line.Text("protocol");
  call.backend = group.backend;
  return call;
}

void Note(Measurements& all, const std::string& note) {
  if (std::find(all.notes.begin(), all.notes.end(), note) == all.notes.end() &&
      all.notes.size() < kMostProblems) {
    all.notes.push_back(note);
  }
}

bool IsKnownType(const LineReader& line, Measurements& all) {
  if (line.unknown_type().empty()) return true;
  Note(all, fmt::format("lines of the type {} left out", line.unknown_type().substr(0, 40)));
  return false;
}

void ReadGemm(LineReader& line, const Group&, Measurements& all) {
  MeasuredGemm gemm = ReadGemmFields(line);
  gemm.time = line.Time();
  if (IsKnownType(line, all)) all.gemms.push_back(std::move(gemm));
}

void ReadMemory(LineReader& line, const Group&, Measurements& all) {
  MeasuredMemory kernel;
  kernel.op = line.Text("op", true);
  kernel.bytes = static_cast<double>(line.Count("bytes"));
  kernel.time = line.Time();
  all.memory.push_back(std::move(kernel));
}

void ReadAttention(LineReader& line, const Group&, Measurements& all) {
  MeasuredAttention call;
  call.batch = line.Count("batch");
  call.heads = line.Count("heads");
  call.seq_q = line.Count("seq_q");
  call.seq_k = line.Count("seq_k");
  call.head_dim = line.Count("head_dim");
  call.causal = line.Flag("causal");
  call.dtype = line.Type("dtype");
  const std::string direction = line.Text("direction");
  if (!direction.empty() && direction != "forward" && direction != "backward") {
    line.Report(fmt::format("direction: found '{}', allowed: forward, backward", direction));
  }
  call.backward = direction == "backward";
  call.implementation = line.Text("implementation");
  call.time = line.Time();
  if (IsKnownType(line, all)) all.attention.push_back(std::move(call));
}

void ReadCollective(LineReader& line, const Group& group, Measurements& all) {
  MeasuredCall call = ReadCallFields(line, group);
  call.time = line.Time();
  all.collectives.push_back(std::move(call));
}

void ReadInterference(LineReader& line, const Group& group, Measurements& all) {
  MeasuredInterference pair;
  LineReader compute = line.Of(line.Inside("compute"));
  pair.compute = ReadGemmFields(compute);
  LineReader beside = line.Of(line.Inside("beside"));
  const std::string kind = beside.Text("kind", true);
  pair.is_collective = kind == "collective";
  if (pair.is_collective) {
    pair.collective = ReadCallFields(beside, group);
  } else if (kind == "copy") {
    pair.sms = static_cast<double>(beside.Count("sms", std::nullopt, 0));
  } else if (!kind.empty()) {
    line.Report(fmt::format("beside.kind: found '{}', allowed: collective, copy", kind));
  }
  pair.compute_alone = line.Seconds("compute_alone_s");
  pair.compute_beside = line.Seconds("compute_beside_s");
  pair.beside_alone = line.Seconds("beside_alone_s", false);
  pair.beside_beside = line.Seconds("beside_beside_s", false);
  if (!IsKnownType(compute, all)) return;
  const auto polled = beside.object().find("polled");
  if (polled != beside.object().end() && polled->is_boolean() && !polled->get<bool>()) {
    // Nobody moved its bytes while the product ran: that tells nothing of running together.
    return Note(all, "pairs with a collective that nobody polled left out");
  }
  all.interference.push_back(std::move(pair));
}

void ReadLaunch(LineReader& line, const Group&, Measurements& all) {
  MeasuredLaunch launch;
  launch.op = line.Text("op", true);
  launch.time = line.Time();
  all.launches.push_back(std::move(launch));
}

struct KindRow {
  std::string_view kind;
  void (*read)(LineReader& line, const Group& group, Measurements& all);
};
constexpr std::array kKinds = {
    KindRow{"gemm", ReadGemm},
    KindRow{"memory", ReadMemory},
    KindRow{"attention", ReadAttention},
    KindRow{"collective", ReadCollective},
    KindRow{"interference", ReadInterference},
    KindRow{"launch", ReadLaunch},
};

// A file may be several that were put behind each other: each header holds until the next.
void ReadHeader(LineReader& line, Group& group, CalibrationSpec& about) {
  const std::string schema = line.Text("schema", true);
  if (schema != kSchema) {
    line.Report(fmt::format("schema: found '{}', allowed: {}", schema, kSchema));
    return;
  }
  about.date = line.Text("date");
  about.command = line.Text("command");
  about.device = line.Text("device");
  about.driver = line.Text("driver");
  group.ranks = line.Count("ranks", 1);
  group.nodes = line.Count("nodes", 1);
  const std::string backend = line.Text("backend");
  group.backend = backend == "mpi" || backend == "gloo" ? backend : "nccl";
  const auto libraries = line.object().find("libraries");
  if (libraries == line.object().end() || !libraries->is_object()) return;
  for (const auto& [name, version] : libraries->items()) {
    if (version.is_string()) about.libraries.push_back(name + " " + version.get<std::string>());
  }
}

class FileReader {
 public:
  FileReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Measurements Read() {
    if (text_.size() > kMostBytes) {
      throw ConfigError(Place{file_, 0, 0}, fmt::format("found more than {} bytes", kMostBytes));
    }
    int number = 0;
    while (!text_.empty() && problems_.size() < kMostProblems) {
      const std::size_t end = text_.find('\n');
      const std::string_view line = text_.substr(0, end);
      const bool is_cut = end == std::string_view::npos;
      text_.remove_prefix(is_cut ? text_.size() : end + 1);
      ReadLine(line, Place{file_, ++number, 1}, is_cut);
    }
    if (!has_header_ && problems_.empty()) {
      problems_.push_back(
          {Place{file_, 1, 1}, fmt::format("found no header with the schema {}", kSchema)});
    }
    if (!problems_.empty()) throw ConfigError(std::move(problems_));
    for (const auto& [kind, count] : unknown_) {
      all_.notes.push_back(
          fmt::format("{}: {} lines of the unknown kind '{}' left out", file_, count, kind));
    }
    all_.about.files = {file_};
    return std::move(all_);
  }

 private:
  void ReadLine(std::string_view line, const Place& place, bool is_cut) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    if (line.size() > kLongestLine) {
      problems_.push_back({place, fmt::format("found a line of {} bytes, allowed: at most {}",
                                              line.size(), kLongestLine)});
      return;
    }
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded() || !object.is_object()) {
      if (is_cut && has_header_) {
        all_.notes.push_back(fmt::format("{}: the last line is cut off", file_));
      } else {
        problems_.push_back({place, "found no JSON object"});
      }
      return;
    }
    LineReader reader(object, place, problems_);
    if (object.contains("schema")) {
      ReadHeader(reader, group_, all_.about);
      has_header_ = true;
      return;
    }
    if (!has_header_) {
      problems_.push_back({place, fmt::format("found a measurement before the header with the "
                                              "schema {}",
                                              kSchema)});
      return;
    }
    const std::string kind = reader.Text("kind", true);
    const auto row = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const KindRow& r) { return r.kind == kind; });
    if (row != kKinds.end()) {
      row->read(reader, group_, all_);
    } else if (!kind.empty() && (unknown_.size() < kMostProblems || unknown_.count(kind) > 0)) {
      ++unknown_[kind];
    }
  }

  std::string_view text_;
  const std::string& file_;
  Measurements all_;
  Group group_;
  bool has_header_ = false;
  std::map<std::string, int> unknown_;
  std::vector<Diagnostic> problems_;
};

}  // namespace

Measurements ReadMeasurementFile(std::string_view text, const std::string& file_name) {
  return FileReader(text, file_name).Read();
}

}  // namespace stepsim
