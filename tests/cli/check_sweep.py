#!/usr/bin/env python3
"""Does a sweep survive what happens to processes? Kills, full disks, two of them at once.

    python3 tests/cli/check_sweep.py build/check/bin/stepsim
"""

import fcntl
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

JOB = ["lesson_bucketed", "--vary", "plan.ddp.bucket_cap_mb=1:60:+1", "--vary", "nodes=1:5:+1"]
POINTS = 60 * 5
DEADLINE_S = 900


def sweep(program, output, *more, **options):
    command = [program, "sweep", *JOB, "--quiet", "--output", str(output), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False, **options)


def lines_in(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def check(condition, message):
    if not condition:
        sys.exit(f"check_sweep: {message}")


def kill_in_the_middle(program, output):
    """Kills the sweep as soon as some rows are there; True when it was not done yet."""
    before = lines_in(output)
    command = [program, "sweep", *JOB, "--quiet", "--jobs", "2", "--output", str(output), "--resume"]
    with subprocess.Popen(command) as process:
        while process.poll() is None and lines_in(output) < before + 20:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
    return process.returncode == -signal.SIGKILL


def check_kill(program, folder, whole):
    output = folder / "killed.jsonl"
    kills = sum(kill_in_the_middle(program, output) for _ in range(3))
    check(kills > 0, "the sweep was done before it could be killed")
    check(lines_in(output) < POINTS + 1, "the killed sweep is complete")
    result = sweep(program, output, "--resume")
    check(result.returncode == 0, f"resuming failed: {result.stderr}")
    check(output.read_bytes() == whole, "a killed and resumed sweep differs from one without kills")


def check_full_disk(program, folder, whole):
    output = folder / "full.jsonl"
    limit = len(whole) // 2

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    result = sweep(program, output, preexec_fn=fill)
    check(result.returncode == 1, f"a full disk gives exit status {result.returncode}")
    check("cannot write" in result.stderr and "--resume" in result.stderr,
          f"a full disk is not named: {result.stderr}")
    found = output.read_bytes()
    check(found.endswith(b"\n") and whole.startswith(found) and len(found) > limit // 2,
          "rows were lost on a full disk")
    check(sweep(program, output, "--resume").returncode == 0, "resuming after a full disk failed")
    check(output.read_bytes() == whole, "a sweep resumed after a full disk differs")


def check_lock(program, folder):
    output = folder / "locked.jsonl"
    with open(output, "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        result = sweep(program, output, "--force")
        check(result.returncode == 2 and "another process" in result.stderr,
              f"a second writer is not refused: {result.returncode} {result.stderr}")
    check(output.read_bytes() == b"", "a refused writer wrote")


def check_job_array(program, folder, whole):
    for task in range(3):
        environment = dict(os.environ, SLURM_ARRAY_TASK_ID=str(task + 4),
                           SLURM_ARRAY_TASK_COUNT="3", SLURM_ARRAY_TASK_MIN="4")
        result = sweep(program, folder / "array.jsonl", env=environment)
        check(result.returncode == 0, f"an array's element failed: {result.stderr}")
    shards = [str(folder / f"array.{i}-of-3.jsonl") for i in (1, 2, 3)]
    merged = folder / "merged.jsonl"
    subprocess.run([program, "merge", *shards, "--quiet", "--export", str(merged)], check=True,
                   timeout=DEADLINE_S)
    check(merged.read_bytes() == whole, "merged shards differ from the whole sweep")


def main(program):
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        output = folder / "whole.jsonl"
        result = sweep(program, output)
        check(result.returncode == 0, f"the sweep failed: {result.stderr}")
        whole = output.read_bytes()
        check(whole.count(b"\n") == POINTS + 1, "rows are missing")
        check_kill(program, folder, whole)
        check_full_disk(program, folder, whole)
        check_lock(program, folder)
        check_job_array(program, folder, whole)
    print("sweeps survive kills, full disks and each other")


if __name__ == "__main__":
    main(*sys.argv[1:])
