#!/usr/bin/env python3
"""Does every file include only what its folder may know?

    python3 tests/layering/check_includes.py [ROOT]      check the tree
    python3 tests/layering/check_includes.py --self-test prove that the check can fail

A folder may include itself, the folders named in LAYERS, and the C++ standard library. Any other
header must be named in THIRD_PARTY, which says where it may appear. What a folder's CMake target links
must be in the table too: what links but must not be included would come in by the next edit.
"""

import pathlib
import re
import sys
from fnmatch import fnmatch

SIM = ("sim/base", "sim/config", "sim/graph", "sim/timeline", "sim/engine", "sim/metrics",
       "sim/report")
SPEC = ("sim/base", "models/pipeline", "models/spec")

# Folder -> the folders that it may include besides itself. The order is the order of dependency.
LAYERS = {
    "sim/base": (),
    "sim/config": ("sim/base",),
    "sim/graph": ("sim/base",),
    "sim/timeline": ("sim/base", "sim/graph"),
    "sim/engine": ("sim/base", "sim/graph", "sim/timeline"),
    "sim/metrics": ("sim/base", "sim/graph", "sim/timeline", "sim/engine"),
    "sim/report": ("sim/base", "sim/graph", "sim/timeline", "sim/metrics"),
    "models/pipeline": ("sim/base",),
    "models/spec": ("sim/base", "sim/config", "models/pipeline"),
    "models/import": (*SPEC, "sim/config"),
    "models/topology": SPEC,
    "models/workload": (*SPEC, "sim/graph"),
    "models/memory": (*SPEC, "models/workload"),
    "models/parallel": (*SPEC, "sim/graph", "models/topology", "models/workload",
                        "models/pipeline", "models/memory"),
    "models/cost": (*SPEC, "sim/graph", "models/topology"),
    "models/contention": (*SPEC, "sim/graph", "sim/engine", "models/cost"),
    "models/calibration": (*SPEC, "sim/config", "sim/graph", "sim/engine", "models/topology",
                           "models/workload", "models/memory", "models/cost", "models/contention"),
    "models/chakra": (*SPEC, "sim/config", "sim/graph"),
    "models/trace": ("sim/base", "sim/graph", "sim/timeline", "sim/engine", "sim/metrics"),
    "models/compare": (*SPEC, "sim/graph", "sim/timeline", "sim/engine", "sim/metrics",
                       "models/trace"),
    "models": (*SIM, "models/*"),
    "models/validation": (*SIM, "models", "models/*"),
    "models/study": (*SIM, "models", "models/*"),
    "tools": (*SIM, "models", "models/*", "tools/*"),
    "tests": (*SIM, "models", "models/*", "tools", "tools/*", "tests/*"),
}

# Header prefix -> the files that may include it. Headers of ours never show a library of others.
THIRD_PARTY = {
    "boost/": ("sim/graph/graph_algorithms.cc", "sim/metrics/memory_profile.cc", "tests/*.cc"),
    "yaml-cpp/": ("sim/config/read_config.cc",),
    "toml++/": ("sim/config/read_toml.cc",),
    "nlohmann/": ("*.cc",),
    "CLI/": ("tools/stepsim/*.cc", "tools/stepsim/*.h", "tools/calibrate/options.cc"),
    "fmt/": ("*.cc", "tests/*"),
    "fast_float/": ("*.cc",),
    "zlib.h": ("*.cc",),
    "chakra.pb.h": ("models/chakra/chakra_trace.cc",),  # generated
    "sqlite3.h": ("models/trace/nsys_reader.cc", "tests/*.cc"),
    "Eigen/": ("models/calibration/*.cc", "tools/calibrate/mpi/cpu_kernels.cc"),
    "tbb/": ("tools/*.cc",),
    "oneapi/": ("tools/*.cc",),
    "gtest/": ("tests/*",),
    "gmock/": ("tests/*",),
    "rapidcheck": ("tests/*",),
    "benchmark/": ("tests/perf/*",),
    "cuda": ("tools/calibrate/cuda/*",),
    "nccl.h": ("tools/calibrate/cuda/*",),
    "cublas": ("tools/calibrate/cuda/*",),
    "mpi.h": ("tools/calibrate/mpi/*",),
    "dlfcn.h": ("tools/calibrate/cuda/*",),
    "netdb.h": ("tools/calibrate/tcp_peers.cc",),
    "netinet/": ("tools/calibrate/tcp_peers.cc", "tests/*"),
    "arpa/": ("tests/*",),
    "poll.h": ("tools/calibrate/tcp_peers.cc", "tests/*"),
    "unistd.h": ("*.cc", "tests/*"),
    "malloc.h": ("*.cc",),
    "spawn.h": ("tools/stepsim/measuring_program.cc",),
    "fcntl.h": ("*.cc", "tests/*"),
    "spawn.h": ("tools/stepsim/measuring_program.cc",),
    "sys/": ("*.cc", "tests/*"),
}

# Parts of the standard library that Clang 14 with libc++ 14 lacks or has only in part.
NOT_PORTABLE = ("ranges", "format", "memory_resource", "source_location", "stop_token", "print",
                "expected", "generator", "syncstream")

STANDARD = set("""
algorithm any array atomic bit bitset cassert cctype cerrno cfloat charconv chrono cinttypes climits
cmath compare complex concepts condition_variable csignal cstdarg cstddef cstdint cstdio cstdlib
cstring ctime deque exception filesystem forward_list fstream functional future initializer_list
iomanip ios iosfwd iostream istream iterator limits list locale map memory mutex new numbers numeric
optional ostream queue random ratio regex set shared_mutex span sstream stack stdexcept streambuf
string string_view system_error thread tuple type_traits typeindex typeinfo unordered_map
unordered_set utility valarray variant vector version
""".split())

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)


def folder_of(path):
    """The layer of a file: sim/graph/site.h -> sim/graph, models/run_step.cc -> models."""
    parts = path.split("/")
    if parts[0] in ("tools", "tests"):
        return parts[0]
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def our_include_problem(path, target):
    folder = folder_of(path)
    if folder not in LAYERS:
        return f"folder {folder} is not in the table of check_includes.py"
    target_folder = folder_of(target)
    if target_folder == folder:
        return None
    if any(fnmatch(target_folder, allowed) for allowed in LAYERS[folder]):
        return None
    return f"{folder} may not include {target_folder} ({target})"


def include_problem(path, kind, target):
    """What is wrong with `#include target` in the file `path`, or None."""
    if target.split("/")[0] in ("sim", "models", "tools", "tests"):
        if kind == "<":
            return f'{target} is ours: write it in quotes'
        return our_include_problem(path, target)
    for prefix, places in THIRD_PARTY.items():
        if target.startswith(prefix):
            if any(fnmatch(path, place) for place in places):
                return None
            return f"<{target}> is allowed only in: {', '.join(places)}"
    if target in NOT_PORTABLE:
        return f"<{target}> is not in Clang 14 with libc++ 14"
    if target in STANDARD:
        return None
    return f"{target} is neither a path from the root nor a known header"


def problems_in(path, text):
    for match in INCLUDE.finditer(text):
        problem = include_problem(path, match.group(1), match.group(2))
        if problem:
            line = text.count("\n", 0, match.start(2)) + 1
            yield f"{path}:{line}: {problem}"


MODULE = re.compile(r"stepsim_module\((\w+)\s+DEPENDS\s+([\w\s]*?)\s*(?:LIBRARIES|SOURCES|\))")


def module_folder(name):
    """The folder of a CMake module: cost -> models/cost, run_step (no folder) -> models."""
    found = [folder for folder in LAYERS if folder.endswith("/" + name)]
    return found[0] if found else "models"


def module_problems(path, text):
    for name, depends in MODULE.findall(text):
        folder = module_folder(name)
        for module in depends.split():
            target = module_folder(module)
            if target != folder and not any(fnmatch(target, ok) for ok in LAYERS[folder]):
                yield f"{path}: {name} may not depend on {module}: {folder} may not use {target}"


def check_tree(root):
    files = [p for top in ("sim", "models", "tools", "tests") for p in (root / top).rglob("*")
             if p.suffix in (".cc", ".h", ".cu")]
    if not files:
        return [f"{root}: no source file found"]
    problems = []
    for path in sorted(files):
        problems += problems_in(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    for name in ("sim/CMakeLists.txt", "models/CMakeLists.txt"):
        problems += module_problems(name, (root / name).read_text(encoding="utf-8"))
    return problems


# (file, its include line, is it allowed?)
SELF_TEST = (
    ("sim/base/units.cc", "#include <string>", True),
    ("sim/base/units.cc", '#include "sim/base/units.h"', True),
    ("sim/base/units.cc", '#include "sim/graph/site.h"', False),
    ("sim/base/units.cc", "#include <fmt/format.h>", True),
    ("sim/base/units.h", "#include <fmt/format.h>", False),
    ("sim/graph/site.h", '#include "models/spec/job.h"', False),
    ("sim/engine/simulate.cc", '#include "models/spec/job.h"', False),
    ("sim/engine/simulate.cc", '  #  include "sim/metrics/accounting.h"', False),
    ("sim/graph/graph_algorithms.cc", "#include <boost/graph/adjacency_list.hpp>", True),
    ("sim/graph/graph_algorithms.h", "#include <boost/graph/adjacency_list.hpp>", False),
    ("models/cost/operator_cost.cc", '#include "sim/engine/simulate.h"', False),
    ("models/parallel/ddp.cc", '#include "models/cost/ring.h"', False),
    ("models/parallel/ddp.cc", '#include "models/workload/workload.h"', True),
    ("models/spec/read_job.cc", "#include <yaml-cpp/yaml.h>", False),
    ("models/spec/job.h", "#include <nlohmann/json.hpp>", False),
    ("models/run_step.cc", '#include "models/parallel/ddp.h"', True),
    ("models/run_step.cc", '#include "tools/stepsim/run.h"', False),
    ("tools/stepsim/run.cc", '#include "models/run_step.h"', True),
    ("tools/stepsim/run.cc", "#include <CLI/CLI.hpp>", True),
    ("models/run_step.cc", "#include <CLI/CLI.hpp>", False),
    ("tests/unit/sim/base/units_test.cc", '#include "sim/graph/site.h"', True),
    ("sim/base/units.cc", "#include <ranges>", False),
    ("sim/base/units.cc", '#include "units.h"', False),
    ("sim/base/units.cc", "#include <sim/base/units.h>", False),
    ("sim/news/x.cc", '#include "sim/base/units.h"', False),
)

MODULE_SELF_TEST = (
    ("stepsim_module(graph DEPENDS base\n  SOURCES a.cc)", True),
    ("stepsim_module(graph DEPENDS base\n  engine SOURCES a.cc)", False),
    ("stepsim_module(cost DEPENDS spec graph LIBRARIES x SOURCES a.cc)", True),
    ("stepsim_module(cost DEPENDS spec engine)", False),
    ("stepsim_module(run_step DEPENDS spec engine metrics SOURCES run_step.cc)", True),
)


def self_test():
    wrong = [f"{path}: {line}" for path, line, allowed in SELF_TEST
             if (not list(problems_in(path, "// first\n" + line + "\n"))) != allowed]
    wrong += [text for text, allowed in MODULE_SELF_TEST
              if (not list(module_problems("CMakeLists.txt", text))) != allowed]
    return [f"self-test: wrong verdict on {case}" for case in wrong]


def main(arguments):
    if arguments == ["--self-test"]:
        problems = self_test()
    else:
        root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2])
        problems = check_tree(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
