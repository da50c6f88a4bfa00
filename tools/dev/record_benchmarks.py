#!/usr/bin/env python3
"""Turns one run of the benchmarks into results/benchmarks/: called by run_benchmarks.sh.

    tools/dev/record_benchmarks.py BUILD_FOLDER

Reads BUILD_FOLDER/engine.json and trace.json (Google Benchmark), times the whole process step_process itself, and
writes engine.csv, trace.csv, processes.csv, environment.txt and the tables between the markers of README.md.
"""
import collections
import csv
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fill_markers import fill_markers  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results" / "benchmarks"
PROCESS_RUNS = 5
# Whole processes and their aims. The last one is a real job: an 80-layer network.
PROCESSES = [
    ("step_process 1 96", "0.01 s"),
    ("step_process 64 96", "0.04 s"),
    ("step_process 1024 96", "0.75 s, 250 MB"),
    ("stepsim run llama-3.2-3b_ddp_16xa100 --set model=llama-3-70b -q", "0.05 s"),
]
# The longer and the wider twin of a workload of 10^6 tasks.
TWINS = {
    "step_274x96_1e6": ["step_274x960_1e7", "step_2740x96_1e7"],
    "rand_narrow_1e6": ["rand_narrow_1e7"],
    "rand_wide_1e6": ["rand_wide_1e7"],
}


def read_engine(build):
    """{workload: {program: median ns per task}}, {workload: tasks}, in the order of the run."""
    samples = collections.defaultdict(list)
    tasks = {}
    for row in json.loads((build / "engine.json").read_text())["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        workload, program = row["run_name"].split("/")[:2]
        samples[workload, program].append(row["ns_per_task"])
        tasks[workload] = int(row["tasks"])
    table = collections.defaultdict(dict)
    for (workload, program), values in samples.items():
        table[workload][program] = statistics.median(values)
    return table, tasks


def read_trace(build):
    """[program, slices, bytes per slice, ns per slice]: medians of the repetitions."""
    samples = collections.defaultdict(list)
    for row in json.loads((build / "trace.json").read_text())["benchmarks"]:
        if row["run_type"] == "iteration":
            program = row["run_name"].rsplit("/", 1)[0]
            key = program, int(row["slices"]), round(row["bytes_per_slice"])
            samples[key].append(row["ns_per_slice"] * 1e9 if row["ns_per_slice"] < 1e-3
                                else row["ns_per_slice"])
    return [[*key, f"{statistics.median(values):.0f}"] for key, values in samples.items()]


def time_process(command):
    """Medians of wall seconds, CPU seconds and peak megabytes of a whole process."""
    runs = []
    for _ in range(PROCESS_RUNS + 1):
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{command} failed")
        process.returncode = 0
        runs.append((time.monotonic() - begin, usage.ru_utime + usage.ru_stime,
                     usage.ru_maxrss / 1000))
    return [statistics.median(column) for column in zip(*runs[1:])]  # the first one warms up


def describe_environment(build):
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"CMAKE_CXX_COMPILER:\w+=(.*)", cache).group(1)
    flags = re.search(r"CMAKE_CXX_FLAGS_RELEASE:\w+=(.*)", cache).group(1)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    release = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return "\n".join([
        f"cpu: {cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} processors",
        f"load when measured: {os.getloadavg()[0]:.1f}",
        f"system: {release.group(1)}, {platform.machine()}",
        f"transparent huge pages: {pages.read_text().strip() if pages.exists() else 'none'}",
        f"compiler: {version.stdout.splitlines()[0]}",
        f"flags: {flags}",
    ]) + "\n"


def engine_rows(table, tasks):
    rows = []
    for workload, programs in table.items():
        bare = programs["bare_heap_loop"]
        for program, value in programs.items():
            rows.append([workload, tasks[workload], program, f"{value:.1f}", f"{value / bare:.2f}"])
    return rows


def markdown(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def engine_markdown(table, tasks):
    rows = [[name, f"{tasks[name]:,}", f"{p['engine']:.0f}", f"{p['bare_heap_loop']:.0f}",
             f"{p['engine'] / p['bare_heap_loop']:.2f}", f"{p['longest_path_sweep']:.1f}",
             f"{p['build']:.0f}" if "build" in p else ""] for name, p in table.items()]
    return markdown(["workload", "tasks", "engine, ns/task", "bare heap loop", "engine / bare",
                     "longest-path sweep", "building the graph"], rows)


def growth_markdown(table):
    rows = []
    for small, twins in TWINS.items():
        for large in twins:
            rows.append([small, large] + [f"{table[large][p] / table[small][p]:.2f}"
                                          for p in ("engine", "bare_heap_loop")])
    return markdown(["10^6", "10^7", "engine, growth of ns/task", "bare heap loop"], rows)


def extras_markdown(table):
    rows = [[name, program, f"{value:.0f}"] for name, p in table.items()
            for program, value in p.items()
            if program in ("engine_identity_interference", "boost_longest_path")]
    return markdown(["workload", "program", "ns/task"], rows)


def process_rows(build):
    rows = []
    for command, limit in PROCESSES:
        program, *arguments = command.split()
        wall, cpu, peak = time_process([str(build / "bin" / program), *arguments])
        rows.append([command, f"{wall:.4f}", f"{cpu:.4f}", f"{peak:.0f}", limit])
    return rows


def write_csv(name, header, rows):
    with open(RESULTS / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header] + rows)


def main():
    build = pathlib.Path(sys.argv[1])
    table, tasks = read_engine(build)
    processes = process_rows(build)
    trace = read_trace(build)
    environment = describe_environment(build)
    process_header = ["command", "wall_s", "cpu_s", "peak_mb", "aim"]
    trace_header = ["program", "slices", "bytes_per_slice", "ns_per_slice"]
    write_csv("engine.csv", ["workload", "tasks", "program", "ns_per_task", "ratio_to_bare"],
              engine_rows(table, tasks))
    write_csv("processes.csv", process_header, processes)
    write_csv("trace.csv", trace_header, trace)
    (RESULTS / "environment.txt").write_text(environment)
    fill_markers(RESULTS / "README.md", {
        "engine": engine_markdown(table, tasks),
        "growth": growth_markdown(table),
        "extras": extras_markdown(table),
        "processes": markdown(process_header, processes),
        "trace": markdown(trace_header, trace),
        "environment": "```\n" + environment + "```",
    })


main()
