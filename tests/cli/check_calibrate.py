#!/usr/bin/env python3
"""Does stepsim-calibrate measure this machine? The file's completeness and plausible relations;
never how fast the machine is.

    python3 tests/cli/check_calibrate.py build/check/bin/stepsim-calibrate
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

DEADLINE_S = 240
SKIPPED = 77
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}
FIELDS = {
    "launch": {"op": str},
    "gemm": {"m": int, "n": int, "k": int, "dtype": str},
    "memory": {"op": str, "bytes": int},
    "attention": {"batch": int, "heads": int, "seq_q": int, "seq_k": int, "head_dim": int,
                  "causal": bool, "dtype": str, "direction": str, "implementation": str},
    "collective": {"op": str, "bytes": int, "ranks": int, "nodes": int, "in_place": bool,
                   "max_ctas": int},
    "interference": {"compute": dict, "beside": dict, "compute_alone_s": float,
                     "compute_beside_s": float, "beside_alone_s": float, "beside_beside_s": float},
}
COMMON = {"kind": str, "median_s": float, "p10_s": float, "p90_s": float, "repeats": int}
HEADER = {"schema": str, "date": str, "command": str, "backend": str, "device": str, "driver": str,
          "libraries": dict, "ranks": int, "nodes": int, "clocks": dict}


def check(condition, message):
    if not condition:
        sys.exit(f"check_calibrate: {message}")


def environment():
    """As root, and with more ranks than cores."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            # MPI's own leaks and races are not ours.
            "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}


def run(program, *arguments, ranks=1):
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return subprocess.run([*launcher, program, *arguments], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False, env=environment())


def check_fields(line, fields, where):
    for name, kind in fields.items():
        check(name in line, f"{where}: no field {name}: {line}")
        value = line[name]
        fits = isinstance(value, (int, float) if kind is float else kind)
        check(fits, f"{where}: {name} is {value!r}, not {kind.__name__}")


def check_line(line, where):
    check_fields(line, COMMON, where)
    check(line["kind"] in FIELDS, f"{where}: kind {line['kind']}")
    check_fields(line, FIELDS[line["kind"]], where)
    check(0 <= line["p10_s"] <= line["median_s"] <= line["p90_s"], f"{where}: spread {line}")
    check(line["median_s"] > 0 and line["repeats"] >= 3, f"{where}: times {line}")


def read(path, ranks):
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    check(lines, f"{path}: empty")
    check_fields(lines[0], HEADER, "header")
    check(lines[0]["schema"] == "stepsim.measurements/1", f"schema {lines[0]['schema']}")
    check((lines[0]["ranks"], lines[0]["nodes"]) == (ranks, 1), f"ranks of {lines[0]}")
    for number, line in enumerate(lines[1:], 2):
        check_line(line, f"line {number}")
    return lines[1:]


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def check_without_device(program):
    """No driver: one sentence and status 1, for one process and as torchrun starts them."""
    result = run(program)
    if result.returncode == 0:
        pathlib.Path("measurements.jsonl").unlink()
        return  # a machine with a GPU
    check(result.returncode == 1, f"--backend cuda ended with {result.returncode}")
    check(result.stderr.startswith("error: ") and result.stderr.count("\n") == 1,
          f"not one sentence: {result.stderr!r}")
    check("--backend mpi" in result.stderr, f"names no way out: {result.stderr!r}")


def check_one_process(program, folder):
    output = folder / "one.jsonl"
    small = ["--backend", "mpi", "--gemm", "64x64x64", "--gemm", "192x192x192", "--sms", "1",
             "--dtypes", "fp32,fp64", "--output", str(output)]
    kinds = "launch,gemm,attention,interference"
    result = run(program, *small, "--only", kinds)
    check(result.returncode == 0, f"failed: {result.stderr}")
    lines = read(output, ranks=1)
    check({line["kind"] for line in lines} == set(kinds.split(",")), "kinds are missing")
    check({line["dtype"] for line in of_kind(lines, "gemm")} == {"fp32", "fp64"}, "types")
    medians = {(line["m"], line["dtype"]): line["median_s"] for line in of_kind(lines, "gemm")}
    check(medians[192, "fp32"] > medians[64, "fp32"], f"27 times the work is faster: {medians}")
    beside = of_kind(lines, "interference")[0]["beside"]
    check(beside == {"kind": "copy", "sms": 1}, f"beside {beside}")
    again = run(program, *small)
    check(again.returncode == 2 and "--overwrite" in again.stderr, f"replaced: {again.stderr}")


def check_ranks(program, folder, ranks):
    output = folder / f"{ranks}.jsonl"
    result = run(program, "--backend", "mpi", "--only", "collective,interference", "--gemm",
                 "64x64x64", "--dtypes", "fp32", "--sms", "1", "--min-bytes", "1KiB", "--max-bytes",
                 "16KiB", "--output", str(output), ranks=ranks)
    check(result.returncode == 0, f"{ranks} ranks failed: {result.stderr}")
    lines = read(output, ranks)
    collectives = of_kind(lines, "collective")
    seen = {(c["op"], c["bytes"], c["in_place"]) for c in collectives}
    sizes = {1 << 10, 1 << 12, 1 << 14}
    for op in COLLECTIVES:
        flavours = (True, False) if op in ("all_reduce", "all_gather", "reduce_scatter") else (False,)
        missing = {(op, size, flavour) for size in sizes for flavour in flavours} - seen
        check(not missing, f"{ranks} ranks: not measured: {missing}")
    check(all((c["ranks"], c["nodes"]) == (ranks, 1) for c in collectives), "ranks of a collective")
    beside = [line["beside"] for line in of_kind(lines, "interference")]
    check({b["kind"] for b in beside} == {"copy", "collective"}, f"interference: {beside}")
    check({b["polled"] for b in beside if b["kind"] == "collective"} == {True, False}, f"polled: {beside}")


def check_budget(program, folder):
    output = folder / "budget.jsonl"
    result = run(program, "--backend", "mpi", "--only", "launch", "--budget", "1ms", "--output",
                 str(output))
    check(result.returncode == 0, f"budget: {result.stderr}")
    check(len(read(output, ranks=1)) < 3, "a budget of 1 ms was enough")
    check("The budget is spent" in result.stderr, f"does not say so: {result.stderr}")


def check_interrupt(program, folder):
    output = folder / "interrupt.jsonl"
    command = [program, "--backend", "mpi", "--output", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        while process.poll() is None and not (output.exists() and output.read_bytes().count(b"\n") > 2):
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
    check(process.returncode == 3, f"interrupted: status {process.returncode}: {errors}")
    check(len(read(output, ranks=1)) >= 2, "partial results are gone")
    check("Interrupted" in errors, f"does not say so: {errors}")


def check_lost_rank(program, folder):
    """Rank 1 never comes, as torchrun would start it: rank 0 ends with a message."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    result = subprocess.run(
        [program, "--backend", "mpi", "--timeout", "500ms", "--port", port, "--output",
         str(folder / "lost.jsonl")],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        env={**environment(), **variables})
    check(result.returncode == 1, f"status {result.returncode}")
    check("1 of 2 ranks" in result.stderr, f"message: {result.stderr}")


def main(program):
    if not shutil.which("mpirun"):
        print("check_calibrate: mpirun is not installed")
        return SKIPPED
    program = str(pathlib.Path(program).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chdir(folder)
        check_without_device(program)
        if "built without MPI" in run(program, "--backend", "mpi", "--budget", "1ms").stderr:
            print("check_calibrate: built without MPI")
            return SKIPPED
        check_one_process(program, folder)
        check_budget(program, folder)
        check_interrupt(program, folder)
        check_lost_rank(program, folder)
        for ranks in (2, 4):
            check_ranks(program, folder, ranks)
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
