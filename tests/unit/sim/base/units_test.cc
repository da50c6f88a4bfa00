#include "sim/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

namespace stepsim {
namespace {

struct ReadCase {
  const char* text;
  Unit unit;
  double value;
};

// Expected values: 1 GB = 1e9 B, 1 GiB = 2^30 B, 1 B = 8 b, SI prefixes.
class ReadsQuantity : public testing::TestWithParam<ReadCase> {};

TEST_P(ReadsQuantity, ToTheLastBit) {
  const ParsedQuantity parsed = ParseQuantity(GetParam().text, GetParam().unit);
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.value, GetParam().value);
}

INSTANTIATE_TEST_SUITE_P(
    Units, ReadsQuantity,
    testing::Values(
        ReadCase{"25 MiB", Unit::kBytes, 25.0 * 1024 * 1024}, ReadCase{"25MB", Unit::kBytes, 25e6},
        ReadCase{"0 B", Unit::kBytes, 0}, ReadCase{"12 bytes", Unit::kBytes, 12},
        ReadCase{"3.2 MB", Unit::kBytes, 3.2e6},
        ReadCase{"80 GiB", Unit::kBytes, 80 * 1073741824.0}, ReadCase{"1 TB", Unit::kBytes, 1e12},
        ReadCase{"1 TiB", Unit::kBytes, 1099511627776.0}, ReadCase{"4 kB", Unit::kBytes, 4e3},
        ReadCase{"400 Gb/s", Unit::kBandwidth, 50e9},
        ReadCase{"400 Gbit/s", Unit::kBandwidth, 50e9},
        ReadCase{"400 Gbps", Unit::kBandwidth, 50e9}, ReadCase{"450 GB/s", Unit::kBandwidth, 450e9},
        ReadCase{"1 GiB/s", Unit::kBandwidth, 1073741824.0},
        ReadCase{"3.35 TB/s", Unit::kBandwidth, 3.35e12}, ReadCase{"5 us", Unit::kTime, 5e-6},
        ReadCase{"5 \xC2\xB5s", Unit::kTime, 5e-6}, ReadCase{"2.5\xCE\xBCs", Unit::kTime, 2.5e-6},
        ReadCase{"7 ns", Unit::kTime, 7e-9}, ReadCase{"100 ms", Unit::kTime, 0.1},
        ReadCase{"3 ps", Unit::kTime, 3e-12}, ReadCase{"1.5 s", Unit::kTime, 1.5},
        ReadCase{"312 TFLOP/s", Unit::kFlopRate, 312e12},
        ReadCase{"19.5 TFLOPS", Unit::kFlopRate, 19.5e12},
        ReadCase{"2.25 PFLOP/s", Unit::kFlopRate, 2.25e15},
        ReadCase{"236 MFLOP", Unit::kFlops, 236e6}, ReadCase{"4.1 GFLOP", Unit::kFlops, 4.1e9},
        ReadCase{"12 FLOP", Unit::kFlops, 12}, ReadCase{"1_000 B", Unit::kBytes, 1000},
        ReadCase{"010 B", Unit::kBytes, 10},  // decimal, never octal
        ReadCase{"1e3 B", Unit::kBytes, 1000}, ReadCase{"5EFLOP", Unit::kFlops, 5e18},
        ReadCase{"-5 us", Unit::kTime, -5e-6}, ReadCase{"  8 B ", Unit::kBytes, 8},
        ReadCase{"0.5", Unit::kNone, 0.5}));

TEST(ParseQuantity, MessageNamesFoundAllowedAndAnExample) {
  EXPECT_EQ(ParseQuantity("25", Unit::kBytes).error,
            "found '25' without a unit, allowed: a size with its unit (B, kB, MB, GB, TB, KiB, "
            "MiB, GiB, TiB), for example '25 MiB'");
  EXPECT_EQ(
      ParseQuantity("5 usec", Unit::kTime).error,
      "found '5 usec', allowed: a time with its unit (ps, ns, us, ms, s), for example '5 us'");
  EXPECT_EQ(ParseQuantity("312 TFLOP", Unit::kFlopRate).error,
            "found '312 TFLOP', allowed: a rate with its unit (GFLOP/s, TFLOP/s, PFLOP/s), for "
            "example '312 TFLOP/s'; did you mean 'TFLOPS'?");
  EXPECT_EQ(ParseQuantity("abc", Unit::kNone).error,
            "found 'abc', allowed: a number, for example '1.5'");
}

TEST(ParseQuantity, DoesNotGuessBetweenBitsAndBytes) {
  EXPECT_EQ(ParseQuantity("400 gb/s", Unit::kBandwidth).error,
            "found '400 gb/s', allowed: a bandwidth with its unit (MB/s, GB/s, GiB/s, TB/s, Mb/s, "
            "Gb/s, Gbit/s, Gbps; b is a bit, B a byte), for example '400 Gb/s'");
}

TEST(ParseQuantity, LongJunkMakesAShortMessage) {
  EXPECT_LT(ParseQuantity(std::string(1000000, 'x'), Unit::kTime).error.size(), 250u);
}

TEST(ParseQuantity, RefusesWhatIsNotADecimalNumber) {
  for (const char* text : {"", " ", "nan s", ".nan s", "inf s", "0x10 s", "1e999 s", "- s", ". s",
                           "1__0 s", "_1 s", "1,5 s", "1 2 s", "s", "+-1 s", "1e308 ks"}) {
    EXPECT_FALSE(ParseQuantity(text, Unit::kTime).ok()) << text;
  }
}

TEST(ParseInteger, DecimalOnly) {
  EXPECT_EQ(ParseInteger("010"), 10);
  EXPECT_EQ(ParseInteger("-3"), -3);
  EXPECT_EQ(ParseInteger("+7"), 7);
  EXPECT_EQ(ParseInteger("1_000_000"), 1000000);
  EXPECT_EQ(ParseInteger("1e6"), 1000000);
  EXPECT_EQ(ParseInteger("1.5e3"), 1500);
  EXPECT_EQ(ParseInteger("9223372036854775807"), INT64_MAX);  // 2^63 - 1
  for (const char* text : {"", "4.0", "1.5", "1e-1", "0x10", "0o17", "9223372036854775808", "1e30",
                           "ten", "1 ", " 1", "nan", "1e", "--1"}) {
    EXPECT_EQ(ParseInteger(text), std::nullopt) << text;
  }
}

TEST(ParseNumber, DecimalOnly) {
  EXPECT_EQ(ParseNumber("0.25"), 0.25);
  EXPECT_EQ(ParseNumber(".5"), 0.5);
  EXPECT_EQ(ParseNumber("5."), 5.0);
  EXPECT_EQ(ParseNumber("-1e-3"), -1e-3);
  for (const char* text : {"", "nan", ".inf", "inf", "0x1p3", "1f", "1e400", "e5"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
}

// Three significant digits, the largest unit in which the rounded number is at least one.
TEST(Format, Time) {
  EXPECT_EQ(FormatTime(1.43), "1.43 s");
  EXPECT_EQ(FormatTime(0.01234), "12.3 ms");
  EXPECT_EQ(FormatTime(4e-6), "4.00 us");
  EXPECT_EQ(FormatTime(0.0), "0 s");
  EXPECT_EQ(FormatTime(0.99996), "1.00 s");
  EXPECT_EQ(FormatTime(0.000123456), "123 us");
  EXPECT_EQ(FormatTime(1e-12), "1.00 ps");
  EXPECT_EQ(FormatTime(-0.5), "-500 ms");
  EXPECT_EQ(FormatTime(3600.0), "3600 s");
  EXPECT_EQ(FormatTime(Duration(2'500'000)), "2.50 us");
}

TEST(Format, SizesAndRates) {
  EXPECT_EQ(FormatBytes(28852224.0), "28.9 MB");
  EXPECT_EQ(FormatBytes(1.58e9), "1.58 GB");
  EXPECT_EQ(FormatBytes(Bytes{512}), "512 B");
  EXPECT_EQ(FormatBytes(0.0), "0 B");
  EXPECT_EQ(FormatMemory(Bytes{80LL << 30}), "80.0 GiB");
  EXPECT_EQ(FormatMemory(Bytes{141'000'000'000}), "131 GiB");  // 141e9 / 2^30 = 131.3
  EXPECT_EQ(FormatMemory(Bytes{1536}), "1.50 KiB");
  EXPECT_EQ(FormatMemory(Bytes{512}), "512 B");
  EXPECT_EQ(FormatBandwidth(150e9), "150 GB/s");
  EXPECT_EQ(FormatBandwidth(3.35e12), "3.35 TB/s");
  EXPECT_EQ(FormatFlopRate(312e12), "312 TFLOP/s");
  EXPECT_EQ(FormatCount(3212749824.0), "3.21 B");
  EXPECT_EQ(FormatCount(12345), "12,345");
  EXPECT_EQ(FormatCount(123), "123");
  EXPECT_EQ(FormatCount(11689512), "11.7 M");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
}

TEST(WriteQuantity, PicksTheShortestReadableForm) {
  EXPECT_EQ(WriteQuantity(26214400, Unit::kBytes), "25 MiB");
  EXPECT_EQ(WriteQuantity(25e6, Unit::kBytes), "25 MB");
  EXPECT_EQ(WriteQuantity(0, Unit::kBytes), "0 B");
  EXPECT_EQ(WriteQuantity(300e9, Unit::kBandwidth), "300 GB/s");
  EXPECT_EQ(WriteQuantity(12.5e9, Unit::kBandwidth), "100 Gb/s");
  EXPECT_EQ(WriteQuantity(312e12, Unit::kFlopRate), "312 TFLOP/s");
  EXPECT_EQ(WriteQuantity(2.5e-6, Unit::kTime), "2.5 us");
  EXPECT_EQ(WriteQuantity(0, Unit::kTime), "0 s");
  EXPECT_EQ(WriteQuantity(236e6, Unit::kFlops), "236 MFLOP");
  EXPECT_EQ(WriteQuantity(0.1, Unit::kNone), "0.1");
}

TEST(WriteQuantity, IsReadBackExactly) {
  for (const Unit unit :
       {Unit::kNone, Unit::kBytes, Unit::kBandwidth, Unit::kTime, Unit::kFlopRate, Unit::kFlops}) {
    double value = 1e-13;
    while (value < 1e20) {
      EXPECT_EQ(ParseQuantity(WriteQuantity(value, unit), unit).value, value);
      value *= 1.7320508;
    }
  }
}

}  // namespace
}  // namespace stepsim
