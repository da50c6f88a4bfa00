// How files become events: the scanner, the fields of an event, gzip, SQLite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/trace/byte_source.h"
#include "models/trace/event_fields.h"
#include "models/trace/event_scanner.h"
#include "models/trace/measured_run.h"
#include "models/trace/nsys_reader.h"
#include "sim/base/diagnostics.h"
#include "tests/unit/models/trace/trace_text.h"

namespace stepsim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TraceText;

std::vector<std::string> EventsIn(const std::string& text, bool* is_truncated = nullptr) {
  const auto source = OpenTraceText(text);
  EventScanner scanner(*source);
  std::vector<std::string> events;
  while (true) {
    const EventScanner::Item item = scanner.Next();
    if (item == EventScanner::Item::kEvent) events.emplace_back(scanner.text());
    if (item == EventScanner::Item::kEnd || item == EventScanner::Item::kNoJson) break;
  }
  if (is_truncated != nullptr) *is_truncated = scanner.is_truncated();
  return events;
}

TEST(EventScanner, FindsEventsWhateverIsInThem) {
  EXPECT_THAT(
      EventsIn(R"({"x":{"traceEvents":[{"no":1}]},"traceEvents":[{"a":"}]\""}, {"b":[{}]}]})"),
      ElementsAre(R"({"a":"}]\""})", R"({"b":[{}]})"));
  EXPECT_THAT(EventsIn("\xEF\xBB\xBF[{\"a\":1},\n{\"b\":2},]"),
              ElementsAre("{\"a\":1}", "{\"b\":2}"));
}

TEST(EventScanner, AnEventMayBeLongerThanTheBuffer) {
  const std::string longer = "{\"name\":\"" + std::string(700'000, 'x') + "\"}";
  EXPECT_THAT(EventsIn("[" + longer + ",{}]"), ElementsAre(longer, "{}"));
  // Longer than any event can be: passed over.
  const std::string longest = "{\"name\":\"" + std::string(40'000'000, 'x') + "\"}";
  EXPECT_THAT(EventsIn("[" + longest + ",{}]"), ElementsAre("{}"));
}

TEST(EventScanner, SaysWhenTheEndIsMissing) {
  bool is_truncated = false;
  EXPECT_THAT(EventsIn("{\"traceEvents\":[{\"a\":1},{\"b\"", &is_truncated),
              ElementsAre("{\"a\":1}"));
  EXPECT_TRUE(is_truncated);
  EXPECT_THAT(EventsIn("[{\"a\":1},", &is_truncated), ElementsAre("{\"a\":1}"));
  EXPECT_FALSE(is_truncated);  // the format allows it
}

// Members that repeat must not cost stack.
TEST(EventScanner, ManyEmptyMembers) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"traceEvents\":[],";
  EXPECT_THAT(EventsIn(text + "\"traceEvents\":[{}]}"), ElementsAre("{}"));
  EXPECT_THAT(EventsIn("[" + std::string(1'000'000, '[')), ElementsAre());
}

// A file of blanks without end is given up.
TEST(EventScanner, BlanksAreNotReadForEver) {
  EXPECT_THAT(EventsIn(std::string(3 << 20, '\0') + "[{\"a\":1}]"), ElementsAre());
  EXPECT_THAT(EventsIn(std::string(1 << 10, '\n') + "[{\"a\":1}]"), ElementsAre("{\"a\":1}"));
}

TEST(EventFields, MembersOfAnEvent) {
  EventFields field(R"({"ph":"X", "ts" : 1.5,"args":{"a":[1,"}"]},"nan":nan})");
  std::vector<std::string> seen;
  while (field.Next()) seen.push_back(std::string(field.key()) + "=" + std::string(field.value()));
  EXPECT_THAT(seen, ElementsAre("ph=X", "ts=1.5", R"(args={"a":[1,"}"]})", "nan=nan"));
  EXPECT_FALSE(field.is_broken());
  EventFields broken(R"({"ph":"X","name":"a)");
  EXPECT_TRUE(broken.Next());
  EXPECT_FALSE(broken.Next());
  EXPECT_TRUE(broken.is_broken());
}

TEST(EventFields, NumbersAreExact) {
  EXPECT_EQ(ParseMoment("1661203462598738.123456")->ns, 1661203462598738123);
  EXPECT_EQ(ParseMoment("1661203462598738.123456")->ps, 456);
  EXPECT_EQ(ParseMoment("-1.25")->ns, -1250);
  EXPECT_EQ(ParseMoment("-0.0005")->ns, -1);
  EXPECT_EQ(ParseMoment("-0.0005")->ps, 500);
  EXPECT_EQ(ParseMoment("1e3")->ns, 1'000'000);
  for (const char* text : {"", "x", "nan", "inf", "1e300", "99999999999999999999", "1.5x"}) {
    EXPECT_FALSE(ParseMoment(text)) << text;
  }
  EXPECT_EQ(*ParseLength("0.000001"), Duration(1));
  EXPECT_FALSE(ParseLength("-1"));
  EXPECT_EQ(CountElements("[[8, 1024, 8816], [16], []]"), 8 * 1024 * 8816 + 16);
  EXPECT_EQ(CountElements("[[0, 5]]"), 0);
  EXPECT_EQ(UnescapeJson(R"(a\"b\\cé)"), "a\"b\\c\xC3\xA9");
}

std::string Gzip(const std::string& text) {
  std::string packed(text.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(ByteSource, GzipInMembersAndCutOff) {
  TraceText t;
  t.Kernel("gemm", 7, 0, 10);
  t.Kernel("gemm", 7, 20, 10);
  const std::string text = t.Text();
  const std::string members = Gzip(text.substr(0, 100)) + Gzip(text.substr(100));
  EXPECT_EQ(ReadTraceTexts({{"a.gz", members}}, {}).ranks[0].kernels, 2u);
  for (int i = 2; i < 200; ++i) t.Kernel("gemm", 7, 37 * i * i, 10 + i % 7);
  const std::string packed = Gzip(t.Text());
  const MeasuredRun cut = ReadTraceTexts({{"a.gz", packed.substr(0, packed.size() - 30)}}, {});
  EXPECT_THAT(cut.warnings, Contains(HasSubstr("the gzip file is cut off")));
  EXPECT_GT(cut.ranks[0].kernels, 100u);
  EXPECT_LT(cut.ranks[0].kernels, 200u);
  // Damaged from the first byte of data on: nothing is left.
  std::string damaged = packed;
  damaged[12] = static_cast<char>(damaged[12] ^ 0x5A);
  EXPECT_THROW(ReadTraceTexts({{"a.gz", damaged}}, {}), ConfigError);
}

TEST(ByteSource, FilesThatCannotBeOpened) {
  EXPECT_THROW(ReadTraces({"does/not/exist.json"}, {}), ConfigError);
  EXPECT_THROW(ReadTraces({STEPSIM_SOURCE_DIR}, {}), ConfigError);
}

// ---- Nsight Systems ----

// The documented schema (Nsight Systems user guide, "SQLite Schema Reference"), as far as it is
// read.
class Nsys : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             (std::string("stepsim_nsys_") +
              ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".sqlite"))
                .string();
    std::filesystem::remove(path_);
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database_), SQLITE_OK);
  }
  void TearDown() override {
    sqlite3_close(database_);
    std::filesystem::remove(path_);
  }
  void Do(const std::string& sql) {
    char* error = nullptr;
    ASSERT_EQ(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << sql << ": " << (error == nullptr ? "" : error);
  }
  void MakeTables() {
    Do("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
    Do("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
       "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, "
       "demangledName INTEGER, shortName INTEGER)");
    Do("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, "
       "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind "
       "INTEGER)");
    Do("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, "
       "globalTid INTEGER, correlationId INTEGER, nameId INTEGER)");
    Do("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, "
       "globalTid INTEGER, textId INTEGER)");
    Do("CREATE TABLE TARGET_INFO_GPU (name TEXT, id INTEGER)");
    Do("INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100', 0)");
    Do("INSERT INTO StringIds VALUES (1, 'nvjet_tst_128x64'), "
       "(2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)'), (3, 'ncclAllReduce')");
  }

  std::string path_;
  sqlite3* database_ = nullptr;
};

TEST_F(Nsys, KernelsCopiesLaunchesAndSteps) {
  MakeTables();
  // Two processes with one device each; correlation ids repeat between them.
  for (const std::int64_t pid : {10, 11}) {
    const std::string global = std::to_string(pid << 24);
    const std::string thread = std::to_string((pid << 24) + pid);
    const std::string device = std::to_string(pid - 10);
    const std::string late = pid == 11 ? "+ 200000" : "";  // its launch and its kernel
    Do("INSERT INTO NVTX_EVENTS VALUES (0, 1000000, 59, 'step 3', " + thread +
       ", NULL), "
       "(390000, 410000, 59, NULL, " +
       thread + ", 3)");
    Do("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5000, 6000, 0, " + thread +
       ", 1, 0), "
       "(400000 " +
       late + ", 401000 " + late + ", 0, " + thread + ", 2, 0)");
    Do("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10000, 110000, " + device + ", 1, 7, 1, " +
       global + ", 1, 1), (410000 " + late + ", 910000, " + device + ", 1, 20, 2, " + global +
       ", 2, 2)");
    Do("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (120000, 130000, " + device + ", 7, 3, " +
       global + ", 64, 1)");
  }
  ASSERT_TRUE(IsSqlite(path_));
  const MeasuredRun run = ReadTraces({path_}, {});
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_EQ(run.ranks[0].device, "NVIDIA H100");
  EXPECT_EQ(run.ranks[0].kernels, 1u);
  EXPECT_EQ(run.ranks[1].collectives, 1u);
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_EQ(run.steps[0].number, 3);
  EXPECT_EQ(run.matched_collectives, 1u);
  const MeasuredReport report = ReportStep(run, ChooseStep(run, {StepChoice::Kind::kAll}));
  EXPECT_EQ(report.ranks[0].compute_kernels, Duration(100'000'000));
  EXPECT_EQ(report.ranks[0].copies, Duration(10'000'000));
  EXPECT_EQ(report.ranks[0].communication, Duration(500'000'000));
  EXPECT_EQ(report.step.ranks[0].peer_wait, Duration(200'000'000));
  EXPECT_EQ(report.step.ranks[1].peer_wait, Duration(0));
}

TEST_F(Nsys, OlderTablesLackColumns) {
  Do("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  Do("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
     "streamId INTEGER, shortName INTEGER)");
  Do("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0, 7, 5), (NULL, 10, 0, 7, 5), "
     "(20, 10, 0, 7, 5)");
  const MeasuredRun run = ReadTraces({path_}, {});
  EXPECT_EQ(run.ranks[0].kernels, 1u);
  EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("2 rows have no usable time")));
}

TEST_F(Nsys, WithoutKernelsOneClearError) {
  Do("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  try {
    ReadTraces({path_}, {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds no kernels"));
  }
}

TEST_F(Nsys, DamagedFile) {
  MakeTables();
  sqlite3_close(database_);
  database_ = nullptr;
  std::filesystem::resize_file(path_, 1000);
  EXPECT_THROW(ReadTraces({path_}, {}), ConfigError);
}

}  // namespace
}  // namespace stepsim
