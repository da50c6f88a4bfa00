#!/usr/bin/env python3
"""Turns one run of the benchmarks into results/benchmarks/: called by run_benchmarks.sh.

    tools/dev/record_benchmarks.py BUILD_FOLDER

Reads BUILD_FOLDER/engine.json (Google Benchmark), times the whole process step_process itself, and
writes engine.csv, processes.csv, environment.txt and the tables between the markers of README.md.
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

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results" / "benchmarks"
PROCESS_RUNS = 5
# Ranks and layers, then the limits of seconds and megabytes.
PROCESSES = [(1, 96, 0.010, None), (64, 96, 0.040, None), (1024, 96, 0.75, 250)]
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
             f"{p['build']:.0f}"] for name, p in table.items()]
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
    for ranks, layers, seconds, megabytes in PROCESSES:
        command = [str(build / "bin" / "step_process"), str(ranks), str(layers)]
        wall, cpu, peak = time_process(command)
        limit = f"{seconds:g} s" + (f", {megabytes} MB" if megabytes else "")
        rows.append([f"step_process {ranks} {layers}", f"{wall:.4f}", f"{cpu:.4f}", f"{peak:.0f}",
                     limit])
    return rows


def fill_readme(sections):
    readme = RESULTS / "README.md"
    text = readme.read_text()
    for name, body in sections.items():
        pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            sys.exit(f"{readme} has no place for '{name}'")
        text = pattern.sub(lambda m: m.group(1) + body + "\n" + m.group(2), text)
    readme.write_text(text)


def write_csv(name, header, rows):
    with open(RESULTS / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header] + rows)


def main():
    build = pathlib.Path(sys.argv[1])
    table, tasks = read_engine(build)
    processes = process_rows(build)
    environment = describe_environment(build)
    process_header = ["command", "wall_s", "cpu_s", "peak_mb", "aim"]
    write_csv("engine.csv", ["workload", "tasks", "program", "ns_per_task", "ratio_to_bare"],
              engine_rows(table, tasks))
    write_csv("processes.csv", process_header, processes)
    (RESULTS / "environment.txt").write_text(environment)
    fill_readme({
        "engine": engine_markdown(table, tasks),
        "growth": growth_markdown(table),
        "extras": extras_markdown(table),
        "processes": markdown(process_header, processes),
        "environment": "```\n" + environment + "```",
    })


main()
