#include "tools/sweep/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace stepsim {
namespace {

using Json = nlohmann::ordered_json;

// The lines of one result file.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) throw ConfigError({path, 0, 0}, "found no such file, allowed: a result of a sweep");
    const int first = file_.peek();
    if (first == std::ifstream::traits_type::eof())
      throw ConfigError({path, 0, 0}, "found an empty file, allowed: a result of a sweep");
    if (first != '{') {  // before a line of any length is read
      throw ConfigError({path, 1, 1},
                        "found no header of a sweep, allowed: a file that stepsim sweep wrote");
    }
    if (!ReadLine()) {
      throw ConfigError({path, 1, 1},
                        "found a header that is cut off, allowed: a result of a sweep");
    }
    header_ = ReadHeader(line_, place());
  }

  const ResultHeader& header() const { return header_; }
  const std::string& line() const { return line_; }
  std::uint64_t index() const { return index_; }
  Place place() const { return {path_, number_, 1}; }

  // False at the end, and at a line that was not written whole.
  bool Next() {
    const bool has_row = number_ > 1;
    if (!ReadLine()) return false;
    const auto index = IndexOf(line_);
    if (!index)
      throw ConfigError(place(), "found no row of a sweep, allowed: rows as they were written");
    if (has_row && *index <= index_) {
      throw ConfigError(
          place(),
          fmt::format("found point {} behind {}, allowed: rows in their order", *index, index_));
    }
    index_ = *index;
    return true;
  }

 private:
  bool ReadLine() {
    ++number_;
    return std::getline(file_, line_) && !file_.eof();
  }

  std::string path_;
  std::ifstream file_;
  std::string line_;
  int number_ = 0;
  std::uint64_t index_ = 0;
  ResultHeader header_;
};

// Of a field, which may be a text.
std::optional<double> Number(const Json& value) {
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

// null: the step has none.
std::optional<double> Measure(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "1-3, 7" of the shards that are not there.
std::string MissingShards(const std::map<std::uint64_t, std::size_t>& found, std::uint64_t count) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> missing;
  for (std::uint64_t i = 1; i <= count && missing.size() <= kMost; ++i) {
    if (found.count(i) != 0) continue;
    std::uint64_t last = i;
    while (last < count && found.count(last + 1) == 0) ++last;
    missing.push_back(last == i ? fmt::format("{}", i) : fmt::format("{}-{}", i, last));
    i = last;
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace

ResultRow ReadRow(std::string_view line, const ResultHeader& header, const Place& place) {
  try {
    const Json json = Json::parse(line);
    ResultRow row;
    row.index = json.at("index");
    const bool has_step = json.contains("metrics");
    for (const ResultHeader::Axis& axis : header.axes) {
      row.axes.push_back(Text(json.at("axes").at(axis.path)));
      if (has_step) row.resolved.push_back(Number(json.at("resolved").at(axis.path)));
    }
    if (has_step) {
      for (const std::string& metric : header.metrics) {
        row.metrics.push_back(Measure(json.at("metrics").at(metric)));
      }
      row.warnings = json.at("warnings");
    } else if (json.contains("filtered")) {
      row.filtered = json.at("filtered");
    } else {
      row.error_kind = json.at("error").at("kind");
      row.error_text = json.at("error").at("text");
    }
    return row;
  } catch (const Json::exception&) {
    throw ConfigError(place, "found a broken row, allowed: rows as they were written");
  }
}

SweepResults::SweepResults(std::vector<std::string> paths) : paths_(std::move(paths)) {
  std::vector<ResultHeader> headers;
  Diagnostics problems;
  for (const std::string& path : paths_) {
    try {
      Reader reader(path);
      std::uint64_t rows = 0;
      while (reader.Next()) ++rows;
      headers.push_back(reader.header());
      const ResultHeader& header = headers.back();
      if (rows != header.shard_points) {
        problems.Add({path, 0, 0},
                     fmt::format("found {} of {} points, allowed: all; stepsim sweep --resume does "
                                 "the rest",
                                 rows, header.shard_points));
      }
    } catch (const ConfigError& error) {
      for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
    }
  }
  if (headers.size() == paths_.size()) {
    try {
      CheckShards(headers);
    } catch (const ConfigError& error) {
      for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
    }
  }
  problems.ThrowIfAny();
  header_ = headers.front();
  header_.shard = Shard{};
  header_.shard_points = header_.points;
}

void SweepResults::CheckShards(const std::vector<ResultHeader>& headers) const {
  if (headers.empty()) throw ConfigError(Place{}, "found no file, allowed: results of a sweep");
  const ResultHeader& first = headers.front();
  Diagnostics problems;
  std::map<std::uint64_t, std::size_t> found;  // shard -> file
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const ResultHeader& header = headers[i];
    if (header.hash != first.hash) {
      problems.Add({paths_[i], 1, 1},
                   fmt::format("found another sweep ('{}', hash {}), allowed: that of {} ('{}', "
                               "hash {})",
                               header.sweep, header.hash, paths_[0], first.sweep, first.hash));
    } else if (header.shard.count != first.shard.count) {
      problems.Add({paths_[i], 1, 1}, fmt::format("found shard {}, allowed: one of {}",
                                                  header.shard.Text(), first.shard.count));
    } else if (const auto [other, is_new] = found.emplace(header.shard.index, i); !is_new) {
      problems.Add({paths_[i], 1, 1}, fmt::format("found shard {} again, first in {}",
                                                  header.shard.Text(), paths_[other->second]));
    }
  }
  problems.ThrowIfAny();
  if (found.size() == first.shard.count) return;
  throw ConfigError(
      Place{}, fmt::format("found {} of {} shards, missing: {}", found.size(), first.shard.count,
                           MissingShards(found, first.shard.count)));
}

void SweepResults::Visit(
    const std::function<void(const std::string&, const Place&)>& visitor) const {
  std::vector<std::unique_ptr<Reader>> readers;
  std::map<std::uint64_t, Reader*> next;  // by the index of its row
  const auto advance = [&](Reader* reader) {
    if (!reader->Next()) return;
    if (next.emplace(reader->index(), reader).second) return;
    throw ConfigError(Place{},
                      fmt::format("found point {} in two files, allowed: once", reader->index()));
  };
  for (const std::string& path : paths_) {
    readers.push_back(std::make_unique<Reader>(path));
    advance(readers.back().get());
  }
  while (!next.empty()) {
    Reader* reader = next.begin()->second;
    next.erase(next.begin());
    visitor(reader->line(), reader->place());
    advance(reader);
  }
}

void SweepResults::VisitRows(const std::function<void(const ResultRow&)>& visitor) const {
  Visit(
      [&](const std::string& line, const Place& place) { visitor(ReadRow(line, header_, place)); });
}

}  // namespace stepsim
