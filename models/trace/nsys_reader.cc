#include "models/trace/nsys_reader.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "models/trace/kernel_rules.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// The process in a "globalTid" or "globalPid": 24 bits of it, above 24 of the thread.
std::int64_t ProcessOf(std::int64_t global) { return (global >> 24) & 0xFFFFFF; }

class NsysReader {
 public:
  explicit NsysReader(const std::string& file) {
    data_.file = file;
    data_.source = "Nsight Systems";
    sqlite3* opened = nullptr;
    const int status = sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(opened);
    if (status != SQLITE_OK) {
      throw ConfigError({file, 0, 0}, fmt::format("cannot be opened: {}", sqlite3_errstr(status)));
    }
    // What a hostile schema may do is little: no triggers, no views that write.
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  }

  TraceData Read() {
    ReadStrings();
    ReadKernels();
    ReadCopies("CUPTI_ACTIVITY_KIND_MEMCPY", SpanKind::kCopy, "memcpy");
    ReadCopies("CUPTI_ACTIVITY_KIND_MEMSET", SpanKind::kFill, "memset");
    if (data_.spans.empty()) {
      throw ConfigError({data_.file, 0, 0},
                        "holds no kernels: expected a table CUPTI_ACTIVITY_KIND_KERNEL with rows "
                        "(nsys profile --trace=cuda,nvtx, then nsys export --type sqlite)");
    }
    ReadRuntime();
    ReadAnnotations();
    ReadDevice();
    if (bad_rows_ > 0) {
      data_.warnings.push_back(
          fmt::format("{} rows have no usable time and are left out", bad_rows_));
    }
    return std::move(data_);
  }

 private:
  std::set<std::string> ColumnsOf(const std::string& table) {
    std::set<std::string> columns;
    Statement statement = Prepare(fmt::format("PRAGMA table_info(\"{}\")", table));
    while (statement && sqlite3_step(statement.get()) == SQLITE_ROW) {
      columns.insert(TextAt(statement.get(), 1));
    }
    return columns;
  }

  Statement Prepare(const std::string& sql) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK) {
      sqlite3_finalize(prepared);
      return nullptr;
    }
    return Statement(prepared);
  }

  // Calls take(statement) for every row of a table; columns that are not there are NULL.
  template <class Take>
  void ForEachRow(const std::string& table, const std::vector<std::string>& columns, Take take) {
    const std::set<std::string> known = ColumnsOf(table);
    if (known.empty()) return;
    std::string sql;
    for (const std::string& column : columns) {
      sql += fmt::format("{}{}", sql.empty() ? "SELECT " : ", ",
                         known.count(column) != 0 ? '"' + column + '"' : "NULL");
    }
    Statement statement = Prepare(fmt::format("{} FROM \"{}\"", sql, table));
    int status = statement ? SQLITE_ROW : SQLITE_ERROR;
    while (status == SQLITE_ROW) {
      status = sqlite3_step(statement.get());
      if (status == SQLITE_ROW) take(statement.get());
    }
    if (status != SQLITE_DONE) {
      data_.warnings.push_back(
          fmt::format("table {} cannot be read to its end ({}): the rest is "
                      "lost",
                      table, sqlite3_errmsg(database_.get())));
    }
  }

  static std::string TextAt(sqlite3_stmt* row, int column) {
    const unsigned char* text = sqlite3_column_text(row, column);
    if (text == nullptr) return {};
    return {reinterpret_cast<const char*>(text),
            static_cast<std::size_t>(sqlite3_column_bytes(row, column))};
  }
  static bool HasValue(sqlite3_stmt* row, int column) {
    return sqlite3_column_type(row, column) != SQLITE_NULL;
  }

  void ReadStrings() {
    ForEachRow("StringIds", {"id", "value"}, [&](sqlite3_stmt* row) {
      strings_[sqlite3_column_int64(row, 0)] = TextAt(row, 1).substr(0, kLongestName);
    });
  }

  std::string StringOf(std::int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? fmt::format("string {}", id) : found->second;
  }

  // Begin in column 0, end in column 1, nanoseconds.
  bool TimeOf(sqlite3_stmt* row, TraceMoment* begin, Duration* length) {
    const std::int64_t from = sqlite3_column_int64(row, 0);
    const std::int64_t to = sqlite3_column_int64(row, 1);
    const bool is_usable = HasValue(row, 0) && HasValue(row, 1) && to >= from &&
                           Difference({to, 0}, {from, 0}) < Duration::max();
    if (!is_usable) {
      ++bad_rows_;
      return false;
    }
    *begin = {from, 0};
    *length = Difference({to, 0}, {from, 0});
    return true;
  }

  // Correlation ids are counted per process.
  static std::int64_t Correlation(std::int64_t process, std::int64_t id) {
    return ((process & 0xFFFFFF) << 38) | (id & 0x3FFFFFFFFF);
  }

  // Columns 2 .. 5: device, stream, correlation, global process.
  DeviceSpan SpanOf(sqlite3_stmt* row, SpanKind kind, TraceMoment begin, Duration length) {
    DeviceSpan span;
    span.kind = kind;
    span.begin = begin;
    span.length = length;
    const std::int64_t device = sqlite3_column_int64(row, 2);
    span.device = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(device, 0, std::numeric_limits<std::int32_t>::max()));
    span.stream = sqlite3_column_int64(row, 3);
    const std::int64_t process = ProcessOf(sqlite3_column_int64(row, 5));
    if (HasValue(row, 4)) span.correlation = Correlation(process, sqlite3_column_int64(row, 4));
    span.process = data_.names.Index(fmt::format("{}", process));
    return span;
  }

  void ReadKernels() {
    ForEachRow("CUPTI_ACTIVITY_KIND_KERNEL",
               {"start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                "demangledName", "shortName"},
               [&](sqlite3_stmt* row) {
                 TraceMoment begin;
                 Duration length{};
                 if (!TimeOf(row, &begin, &length)) return;
                 DeviceSpan span = SpanOf(row, SpanKind::kKernel, begin, length);
                 const int column = HasValue(row, 6) ? 6 : 7;
                 span.name = data_.names.Index(StringOf(sqlite3_column_int64(row, column)));
                 data_.spans.push_back(span);
               });
  }

  void ReadCopies(const std::string& table, SpanKind kind, std::string_view name) {
    ForEachRow(table,
               {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes"},
               [&](sqlite3_stmt* row) {
                 TraceMoment begin;
                 Duration length{};
                 if (!TimeOf(row, &begin, &length)) return;
                 DeviceSpan span = SpanOf(row, kind, begin, length);
                 span.name = data_.names.Index(name);
                 span.bytes = HasValue(row, 6) ? sqlite3_column_int64(row, 6) : -1;
                 data_.spans.push_back(span);
               });
  }

  std::uint32_t ThreadOf(std::int64_t global) {
    return data_.ThreadIndex(fmt::format("{}", ProcessOf(global)),
                             fmt::format("{}", global & 0xFFFFFF));
  }

  void ReadRuntime() {
    ForEachRow("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "correlationId", "globalTid"},
               [&](sqlite3_stmt* row) {
                 LaunchCall launch;
                 if (!HasValue(row, 2) || !TimeOf(row, &launch.begin, &launch.length)) return;
                 const std::int64_t thread = sqlite3_column_int64(row, 3);
                 launch.correlation = Correlation(ProcessOf(thread), sqlite3_column_int64(row, 2));
                 launch.thread = ThreadOf(thread);
                 data_.launches.push_back(launch);
               });
  }

  // Push-pop and start-end ranges; marks have no end.
  void ReadAnnotations() {
    ForEachRow(
        "NVTX_EVENTS", {"start", "end", "text", "textId", "globalTid"}, [&](sqlite3_stmt* row) {
          Annotation annotation;
          if (!HasValue(row, 1)) return;
          if (!TimeOf(row, &annotation.begin, &annotation.length)) return;
          std::string text = TextAt(row, 2).substr(0, kLongestName);
          if (text.empty() && HasValue(row, 3)) text = StringOf(sqlite3_column_int64(row, 3));
          annotation.thread = ThreadOf(sqlite3_column_int64(row, 4));
          if (text.rfind("autograd::engine::evaluate_function", 0) == 0) {
            data_.backward.push_back({annotation.begin, annotation.length, annotation.thread});
            return;
          }
          annotation.name = data_.names.Index(text);
          if (text.rfind("nccl", 0) == 0 && CollectiveOf(text)) {
            annotation.message = static_cast<std::uint32_t>(data_.messages.size());
            data_.messages.emplace_back();
            data_.messages.back().collective = text;
          }
          data_.annotations.push_back(annotation);
        });
  }

  void ReadDevice() {
    ForEachRow("TARGET_INFO_GPU", {"name"}, [&](sqlite3_stmt* row) {
      if (data_.device_name.empty()) data_.device_name = TextAt(row, 0);
    });
  }

  static constexpr std::size_t kLongestName = 512;

  Database database_;
  TraceData data_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::size_t bad_rows_ = 0;
};

}  // namespace

bool IsSqlite(const std::string& file) {
  std::FILE* stream = std::fopen(file.c_str(), "rb");
  if (stream == nullptr) return false;
  std::array<char, kMagic.size()> head{};
  const std::size_t got = std::fread(head.data(), 1, head.size(), stream);
  std::fclose(stream);
  return got == head.size() && std::string_view(head.data(), head.size()) == kMagic;
}

TraceData ReadNsys(const std::string& file) { return NsysReader(file).Read(); }

}  // namespace stepsim
