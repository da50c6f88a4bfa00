#include "models/import/argument_list.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

ConfigNode Read(std::string_view text) {
  return ReadArguments(text, "x.sh",
                       {[](std::string_view key) { return key == "bf16" || key == "swiglu"; },
                        [](std::string_view name) { return name == "NCCL_ALGO"; }});
}
std::string Json(std::string_view text) {
  std::string json;
  for (const char c : WriteJson(Read(text))) {
    if (c != '\n' && c != ' ') json += c;
  }
  return json;
}
std::string ErrorOf(std::string_view text) {
  try {
    Read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ArgumentList, ReadsEverySpelling) {
  const char* const same = R"({"num-layers":32,"bf16":true,"lr":0.1})";
  EXPECT_EQ(Json("--num-layers 32 --bf16 --lr 0.1"), same);
  EXPECT_EQ(Json("--num-layers=32\n--bf16\n--lr=0.1\n"), same);
  EXPECT_EQ(Json("--num-layers\n32\n--bf16\n--lr\n0.1\n"), same);
  EXPECT_EQ(Json("--num-layers 32 \\\n  --bf16 \\\n  --lr 0.1"), same);
  EXPECT_EQ(Json("ARGS=(\n --num-layers 32 # depth\n --bf16\n --lr 0.1\n)\n"), same);
  EXPECT_EQ(Json("ARGS=\"\n --num-layers 32 \\\n --bf16 \\\n --lr 0.1\n\"\n"), same);
  EXPECT_EQ(Json("--num_layers 32 --bf16 --lr '0.1'").substr(0, 16), "{\"num-layers\":32");
}

TEST(ArgumentList, ReadsAScript) {
  EXPECT_EQ(Json("#!/bin/bash\nexport NCCL_ALGO=Ring\nGPUS=8\nNODES=${NODES:-2}\n"
                 "DIST=(--nproc_per_node $GPUS --nnodes ${NODES})\n"
                 "MODEL=(\n --num-layers 32\n --swiglu\n)\nif [ -z $X ]; then echo --no; fi\n"
                 "torchrun ${DIST[@]} pretrain_gpt.py ${MODEL[@]} --bf16 \"$@\" | tee log\n"),
            R"({"NCCL_ALGO":"Ring","nproc-per-node":8,"nnodes":2,"num-layers":32,"swiglu":true,)"
            R"("no":true,"bf16":true})");
}

TEST(ArgumentList, KeepsPlaces) {
  const ConfigNode root = Read("A=1\nARGS=\"--num-layers 32 \\\n  --lr 0.1\"\n  --x=$B\n");
  EXPECT_EQ(root.Find("num-layers")->key_place.ToString(), "x.sh:2:7");
  EXPECT_EQ(root.FindValue("num-layers")->place.ToString(), "x.sh:2:20");
  EXPECT_EQ(root.FindValue("lr")->place.ToString(), "x.sh:3:8");
  EXPECT_EQ(root.FindValue("x")->place.ToString(), "x.sh:4:3");
  EXPECT_EQ(root.FindValue("x")->text, "$B");  // the file does not set it
}

// As argparse: several values are a list, the last of two wins, a switch takes no value.
TEST(ArgumentList, ValuesAndRepetitions) {
  EXPECT_EQ(Json("--split 949,50,1 --data a b c --lr 1 --lr 2 --bf16 train.py"),
            R"({"split":"949,50,1","data":["a","b","c"],"lr":2,"bf16":true})");
  EXPECT_EQ(Json("--lr -1 --eps 1e-8"), R"({"lr":-1,"eps":1e-08})");
}

// The program that a launcher starts is no value of its last argument (torchrun's usage line).
TEST(ArgumentList, TheProgramEndsTheLaunchersArguments) {
  EXPECT_EQ(Json("torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 32"),
            R"({"nnodes":2,"nproc-per-node":8,"num-layers":32})");
  EXPECT_EQ(Json("F=a/train.py\ntorchrun --nproc_per_node 8 $F"), R"({"nproc-per-node":8})");
}

TEST(ArgumentList, BrokenAndHostileText) {
  EXPECT_EQ(ErrorOf(""), "x.sh: found no argument, allowed: '--key value' or '--switch'");
  EXPECT_EQ(ErrorOf("echo 'hello --x"),
            "x.sh: found no argument, allowed: '--key value' or "
            "'--switch'");
  for (const char* text : {"--a \"b", "--a 'b", "--a $(", "--a ${", "--a \\", "--a $",
                           "--a=", "A=\"--b", "--a ((((", "--a ${B:-", "\\"}) {
    ErrorOf(text);  // an error or a value, never a crash
  }
  EXPECT_EQ(ErrorOf(std::string_view("--a\n\0", 5)),
            "x.sh:2:1: found the byte 0x00, allowed: a text file (is this a binary file?)");
  std::string doubling = "A=xxxxxxxx\n";
  for (int i = 0; i < 60; ++i) doubling += "A=$A$A\n";
  EXPECT_NE(ErrorOf(doubling + "--x 1").find("x.sh:11:1: found a value of more than 4096"),
            std::string::npos);
  std::string many;
  for (int i = 0; i < 150'000; ++i) many += "--a" + std::to_string(i) + "\n";
  EXPECT_NE(ErrorOf(many).find("more than 100000 words"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string(9'000'000, 'a')).find("allowed: at most 8 MiB"), std::string::npos);
}

}  // namespace
}  // namespace stepsim
