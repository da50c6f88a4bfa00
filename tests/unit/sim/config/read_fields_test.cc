#include "sim/config/read_fields.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/describe_fields.h"
#include "sim/config/field_table.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

// A struct with a member of every kind.
enum class Colour { kRed, kBlue };
constexpr std::array kColourNames = {EnumName<Colour>{Colour::kRed, "red"},
                                     EnumName<Colour>{Colour::kBlue, "blue"}};
struct Wheel {
  std::string name;
  std::int64_t spokes = 32;
};
struct Engine {
  Bytes memory{1024};
  Bandwidth bandwidth{1e9};
  Duration latency{};
  std::optional<double> tuning;
};
struct Car {
  bool is_fast = false;
  std::int64_t doors = 4;
  double share = 0.5;
  std::string name = "car";
  Colour colour = Colour::kRed;
  DType dtype = DType::kFp32;
  std::vector<double> gears;
  Engine engine;
  std::vector<Wheel> wheels;
};

const StructTable<Wheel>& WheelFields() {
  static const StructTable<Wheel> table{
      Field("name", &Wheel::name, "its name").Required(),
      Field("spokes", &Wheel::spokes, "its spokes").Range(1, 100),
  };
  return table;
}
const StructTable<Engine>& EngineFields() {
  static const StructTable<Engine> table{
      Field("memory", &Engine::memory, "its memory").Above(0),
      Field("bandwidth", &Engine::bandwidth, "its bandwidth"),
      Field("latency", &Engine::latency, "its latency"),
      Field("tuning", &Engine::tuning, "its tuning").Counts("MiB").Range(0, 10),
  };
  return table;
}
const StructTable<Car>& CarFields() {
  static const StructTable<Car> table{
      Field("is_fast", &Car::is_fast, "whether it is fast"),
      Field("doors", &Car::doors, "its doors").Range(1, 6).Aliases({"gates", "n_doors"}),
      Field("share", &Car::share, "its share").Range(0, 1),
      Field("name", &Car::name, "its name"),
      Field("colour", &Car::colour, kColourNames, "its colour"),
      Field("dtype", &Car::dtype, "its type").Choices({"fp32", "bf16"}),
      Field("gears", &Car::gears, "its gears").Above(0),
      Field("engine", &Car::engine, EngineFields(), "its engine"),
      Field("wheels", &Car::wheels, WheelFields(), "its wheels"),
  };
  return table;
}

struct Outcome {
  Car car;
  FieldReading reading;
  std::string Errors() const {
    std::string text;
    for (const Diagnostic& d : reading.diagnostics.list()) text += d.ToString() + "\n";
    return text;
  }
};

Outcome Read(std::string_view text) {
  Outcome outcome;
  ReadStruct(ReadConfig(text, "car.yaml"), CarFields(), "", outcome.car, outcome.reading);
  return outcome;
}

TEST(ReadFields, EveryKind) {
  const Outcome outcome = Read(
      "is_fast: true\ndoors: 010\nshare: .25\nname: 308\ncolour: blue\ndtype: bfloat16\n"
      "gears: [1, 2.5]\nengine: {memory: 2 KiB, bandwidth: 8 Gb/s, latency: 5 us, tuning: 3}\n"
      "wheels: [{name: front}, {name: back, spokes: 5}]\n");
  // "010" is ten, more than six doors.
  EXPECT_EQ(outcome.Errors(),
            "car.yaml:2:8: doors: found '010', allowed: a whole number from 1 to 6\n");
  EXPECT_TRUE(outcome.car.is_fast);
  EXPECT_EQ(outcome.car.share, 0.25);
  EXPECT_EQ(outcome.car.name, "308");
  EXPECT_EQ(outcome.car.colour, Colour::kBlue);
  EXPECT_EQ(outcome.car.dtype, DType::kBf16);
  EXPECT_EQ(outcome.car.gears, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(outcome.car.engine.memory.value, 2048);
  EXPECT_EQ(outcome.car.engine.bandwidth.value, 1e9);
  EXPECT_EQ(outcome.car.engine.latency.count(), 5'000'000);
  EXPECT_EQ(outcome.car.engine.tuning, 3.0);
  ASSERT_EQ(outcome.car.wheels.size(), 2u);
  EXPECT_EQ(outcome.car.wheels[0].spokes, 32);
  EXPECT_EQ(outcome.car.wheels[1].spokes, 5);
}

struct Trip {
  std::vector<std::string> stops;
};

const StructTable<Trip>& TripFields() {
  static const StructTable<Trip> table{Field("stops", &Trip::stops, "where it stops")};
  return table;
}

TEST(ReadFields, ListsOfTexts) {
  const auto read = [](std::string_view text, Trip& trip) {
    FieldReading reading;
    ReadStruct(ReadConfig(text, "trip.yaml"), TripFields(), "", trip, reading);
    std::string errors;
    for (const Diagnostic& d : reading.diagnostics.list()) errors += d.ToString() + "\n";
    return errors;
  };
  Trip trip;
  EXPECT_EQ(read("stops: [north, 12, 'a+b']\n", trip), "");
  EXPECT_EQ(trip.stops, (std::vector<std::string>{"north", "12", "a+b"}));
  Trip again;  // as written
  FieldReading reading;
  ReadStruct(WriteStruct(TripFields(), trip), TripFields(), "", again, reading);
  EXPECT_EQ(again.stops, trip.stops);
  EXPECT_EQ(read("stops: north\n", trip),
            "trip.yaml:1:8: stops: found 'north', allowed: a list of texts\n");
  EXPECT_EQ(read("stops: [[a]]\n", trip),
            "trip.yaml:1:8: stops: found a list, allowed: a list of texts\n");
  EXPECT_TRUE(WriteStruct(TripFields(), Trip{}).entries.empty());
}

TEST(ReadFields, EveryProblemAtOnce) {
  EXPECT_EQ(
      Read("is_fast: yes\ndoors: '4'\nshare: 1.5\nname: [a]\ncolour: bleu\ndtype: int64\n"
           "gears: [1, 0]\nengine: {memory: 5, latency: -1 us, tuning: nan, turbo: 1}\n"
           "wheels: [{spokes: 5}, 3]\ndoor: 3\n")
          .Errors(),
      "car.yaml:10:1: found the unknown key 'door', allowed: is_fast, doors, share, name, colour, "
      "dtype, gears, engine, wheels; did you mean 'doors'?\n"
      "car.yaml:1:10: is_fast: found 'yes', allowed: true, false; did you mean 'true'?\n"
      "car.yaml:2:8: doors: found '4' in quotes, allowed: a whole number from 1 to 6\n"
      "car.yaml:3:8: share: found '1.5', allowed: a number from 0 to 1\n"
      "car.yaml:4:7: name: found a list, allowed: a text\n"
      "car.yaml:5:9: colour: found 'bleu', allowed: red, blue; did you mean 'blue'?\n"
      "car.yaml:6:8: dtype: found 'int64', allowed: fp32, bf16\n"
      "car.yaml:7:8: gears: found '0', allowed: a list of numbers, each more than 0\n"
      "car.yaml:8:50: engine: found the unknown key 'turbo', allowed: memory, bandwidth, latency, "
      "tuning\n"
      "car.yaml:8:18: engine.memory: found '5' without a unit, allowed: a size with its unit (B, "
      "kB, MB, GB, TB, KiB, MiB, GiB, TiB), for example '25 MiB'\n"
      "car.yaml:8:30: engine.latency: found '-1 us', allowed: from 0 s to 86400 s, for example '5 "
      "us'\n"
      "car.yaml:8:45: engine.tuning: found 'nan', allowed: a number of MiB from 0 to 10\n"
      "car.yaml:9:10: wheels.0.name: missing, allowed: a text\n"
      "car.yaml:9:23: wheels: found '3', allowed: a list of mappings with name and 1 optional "
      "key\n");
}

TEST(ReadFields, AMemberWithAProblemKeepsItsDefault) {
  const Outcome outcome = Read("{doors: 99, colour: bleu, dtype: int64}");
  EXPECT_EQ(outcome.car.doors, 4);
  EXPECT_EQ(outcome.car.colour, Colour::kRed);
  EXPECT_EQ(outcome.car.dtype, DType::kFp32);
  EXPECT_TRUE(outcome.reading.IsInvalid("doors"));
}

TEST(ReadFields, BoundsAreTight) {
  EXPECT_EQ(Read("{doors: 6}").Errors(), "");
  EXPECT_NE(Read("{doors: 7}").Errors(), "");
  EXPECT_EQ(Read("{doors: 1}").Errors(), "");
  EXPECT_NE(Read("{doors: 0}").Errors(), "");
  EXPECT_EQ(Read("{engine: {memory: 1 B}}").Errors(), "");
  EXPECT_NE(Read("{engine: {memory: 0 B}}").Errors(), "");  // above, not at least
}

TEST(ReadFields, Aliases) {
  EXPECT_EQ(Read("{gates: 2}").car.doors, 2);
  EXPECT_EQ(Read("{doors: 3, gates: 2}").Errors(),
            "car.yaml:1:12: doors: given twice, as 'doors' and as 'gates'\n");
  EXPECT_NE(Read("{n_door: 3}").Errors().find("did you mean 'n_doors'?"), std::string::npos);
}

TEST(ReadFields, ASettingWinsOverAnotherSpellingInTheFile) {
  ConfigNode node = ReadConfig("{gates: 2}", "car.yaml");
  const Place set{"--set doors=3", 0, 0};
  SetPath(node, "doors", MakePlain("3", set), set);
  Car car;
  FieldReading reading;
  ReadStruct(node, CarFields(), "", car, reading);
  EXPECT_TRUE(reading.diagnostics.empty());
  EXPECT_EQ(car.doors, 3);
}

TEST(ReadFields, AKeyOfAnotherLevelIsPointedTo) {
  EXPECT_NE(Read("{latency: 3 us}").Errors().find("did you mean 'engine.latency'?"),
            std::string::npos);
}

TEST(ReadFields, AnEmptySectionIsADefaultOneAndAnEmptyValueIsAMistake) {
  EXPECT_EQ(Read("{engine: , wheels: [{name: a}]}").Errors(), "");
  EXPECT_EQ(Read("{engine: {tuning: }}").Errors(), "");  // optional: unset
  EXPECT_EQ(Read("{doors: }").Errors(),
            "car.yaml:1:2: doors: found nothing, allowed: a whole number from 1 to 6\n");
  EXPECT_EQ(Read("{engine: 3}").Errors(),
            "car.yaml:1:10: engine: found '3', allowed: a mapping with memory, bandwidth, latency, "
            "tuning\n");
}

TEST(ReadFields, RemembersWhereValuesComeFrom) {
  const Outcome outcome = Read("doors: 2\nengine:\n  latency: 5 us\n");
  std::string text;
  for (const ValueOrigin& origin : outcome.reading.origins) {
    text += origin.field + "=" + origin.value + " [" + origin.origin + "]\n";
  }
  EXPECT_EQ(text,
            "is_fast=false [default]\ndoors=2 [car.yaml:1]\nshare=0.5 [default]\n"
            "name=car [default]\ncolour=red [default]\ndtype=fp32 [default]\n"
            "gears=unset [default]\nengine.memory=1 KiB [default]\n"
            "engine.bandwidth=1 GB/s [default]\nengine.latency=5 us [car.yaml:3]\n"
            "engine.tuning=unset [default]\n");
  EXPECT_EQ(outcome.reading.PlaceOf("engine.latency").ToString(), "car.yaml:3:3");
  EXPECT_EQ(outcome.reading.PlaceOf("engine.memory").ToString(), "car.yaml:2:1");
}

TEST(WriteFields, IsReadBackTheSame) {
  const Outcome first = Read(
      "{is_fast: true, doors: 2, share: 0.1, name: 'x: y', colour: blue, dtype: bf16, "
      "gears: [0.3, 2], engine: {memory: 3 B, bandwidth: 12.5 GB/s, latency: 7 ps, tuning: 3}, "
      "wheels: [{name: a, spokes: 3}]}");
  ASSERT_EQ(first.Errors(), "");
  const std::string json = WriteJson(WriteStruct(CarFields(), first.car));
  const Outcome second = Read(json);
  ASSERT_EQ(second.Errors(), "");
  EXPECT_EQ(WriteJson(WriteStruct(CarFields(), second.car)), json);
  EXPECT_EQ(second.car.name, "x: y");
  EXPECT_EQ(second.car.engine.latency.count(), 7);
  EXPECT_EQ(second.car.share, 0.1);
}

TEST(DescribeField, SaysMeaningAllowedDefaultAndSpellings) {
  const std::vector<FieldPath> fields = ListFields(CarFields().fields(), "");
  ASSERT_EQ(fields.size(), 15u);  // nine rows, four of the engine, two of a wheel
  EXPECT_EQ(DescribeField(fields[1]),
            "doors\n  its doors\n  allowed  a whole number from 1 to 6\n  default  4\n"
            "  also     gates, n_doors\n");
  EXPECT_EQ(fields[13].path, "wheels.N.name");
  EXPECT_EQ(DescribeField(fields[13]),
            "wheels.N.name\n  its name\n  allowed  a text\n"
            "  default  none, the key is required\n");
}

TEST(FieldsSchema, OneOfEachKind) {
  const ConfigNode schema = FieldsSchema(WheelFields().fields(), SchemaMode::kWhole);
  EXPECT_EQ(WriteJson(schema), R"({
  "type": "object",
  "properties": {
    "name": {
      "description": "its name",
      "type": "string"
    },
    "spokes": {
      "description": "its spokes; default: 32",
      "type": "integer",
      "minimum": 1,
      "maximum": 100,
      "default": 32
    }
  },
  "required": [
    "name"
  ],
  "additionalProperties": false
})");
  EXPECT_EQ(WriteJson(RequiredKeysSchema(WheelFields().fields())), R"({
  "type": "object",
  "properties": {
    "name": {}
  },
  "required": [
    "name"
  ]
})");
}

// What an optional member means when it is not set is said where a default would be.
TEST(FieldsSchema, MembersThatAreNotSet) {
  struct Bicycle {
    std::optional<std::int64_t> gears;
    std::optional<std::int64_t> bells;
  };
  const StructTable<Bicycle> table{
      Field("gears", &Bicycle::gears, "its gears").Unset("as many as it has"),
      Field("bells", &Bicycle::bells, "its bells")};
  const ConfigNode schema = FieldsSchema(table.fields(), SchemaMode::kWhole);
  const ConfigNode& properties = *schema.FindValue("properties");
  const ConfigNode& gears = *properties.FindValue("gears");
  EXPECT_EQ(gears.FindValue("description")->text, "its gears; default: as many as it has");
  EXPECT_EQ(gears.FindValue("default"), nullptr);
  EXPECT_EQ(properties.FindValue("bells")->FindValue("description")->text, "its bells");
  EXPECT_EQ(DefaultText(table.fields().rows[0], table.fields()), "as many as it has");
}

}  // namespace
}  // namespace stepsim
