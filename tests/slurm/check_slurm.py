#!/usr/bin/env python3
"""Does a sweep as a Slurm job array give the bytes of one process, whatever happens to its elements?

    python3 tests/slurm/check_slurm.py build/check/bin/stepsim .

A Slurm of one node is started on loopback (cluster.py). tools/slurm/submit sends four elements; one
is killed in the middle and one gets the signal of a near time limit, after which they queue
themselves again, one is requeued from outside as when its node is lost; the merge that depends on
them must give what an unsharded sweep gives. Where Slurm is not installed (Debian packages
slurm-wlm and munge) the test is skipped, and fails with STEPSIM_REQUIRE_SLURM set.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

from cluster import Cluster, missing_programs, processes_with, wait_until

SKIPPED = 77
SHARDS = 4
POINTS = 60
KILLED, LOST, LATE = 2, 3, 4  # elements
# A pipeline of 16 stages, so that a point takes long enough to be interrupted.
SWEEP = ["llama-3-405b_tp8_pp16_16384xh100",
         "--set", "plan.pipeline.schedule=1f1b", "--set", "plan.pipeline.virtual_stages=1",
         "--set", "batch.gradient_accumulation_steps=1",
         "--vary", "batch.sequence_length=1024,2048,4096,8192",
         "--vary", "nodes=32:480:+32"]
LONGEST_S = 100
ATTEMPTS = 3  # an element can be done before it is disturbed


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def count_rows(path):
    """Whole lines but for the header."""
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


class ArraySweep:
    def __init__(self, cluster, program, root, name):
        self.cluster = cluster
        self.name = name
        self.program = pathlib.Path(program).resolve()
        result = cluster.run(
            str(pathlib.Path(root).resolve() / "tools/slurm/submit"), "--shards", str(SHARDS),
            "--output", f"{name}.jsonl", "--time=1:00:00", "--", *SWEEP, STEPSIM=str(self.program))
        numbers = re.fullmatch(r"array (\d+)\nmerge (\d+)\n", result.stdout)
        check(numbers, f"submit printed {result.stdout!r}")
        self.array, self.merge = numbers.groups()

    def file(self, element):
        return self.cluster.jobs / f"{self.name}.{element}-of-{SHARDS}.jsonl"

    def log(self, element):
        return (self.cluster.jobs / f"{self.name}.{element}-of-{SHARDS}.log").read_text(encoding="utf-8")

    def states(self):
        """Job to state, of jobs that have not ended."""
        text = self.cluster.run("squeue", "--noheader", "--array", "--format=%i %T").stdout
        return dict(line.split() for line in text.splitlines())

    def process(self, element):
        """The stepsim of an element."""
        for process in processes_with(self.cluster.marker):
            try:
                folder = pathlib.Path("/proc", str(process))
                variables = (folder / "environ").read_bytes().split(b"\0")
                if (folder / "exe").resolve() == self.program and (
                        f"SLURM_ARRAY_TASK_ID={element}".encode() in variables):
                    return process
            except OSError:
                continue
        return None

    def kill(self, element):
        process = self.process(element)
        if process:
            os.kill(process, signal.SIGKILL)

    def lose_node(self, element):
        self.cluster.run("scontrol", "requeue", f"{self.array}_{element}")

    def signal_limit(self, element):
        self.cluster.run("scancel", "--batch", "--signal=USR1", f"{self.array}_{element}")

    def disturb(self):
        """True when all of these elements were in the middle of their work."""
        left = {KILLED: self.kill, LOST: self.lose_node, LATE: self.signal_limit}
        while left:
            element = wait_until(lambda: next((i for i in left if count_rows(self.file(i))), None),
                                 f"rows of the elements {list(left)}", LONGEST_S)
            left.pop(element)(element)
            if count_rows(self.file(element)) >= POINTS // SHARDS:
                return False
        return True

    def cancel(self):
        self.cluster.run("scancel", self.array, self.merge)
        wait_until(lambda: not self.states(), "the cancelled jobs to end", LONGEST_S)

    def release(self, element):
        """Slurm lets a requeued job wait for two minutes; this makes it seconds. None at all would be
        too few: slurmd takes a start in the second of the requeue for one that was called off.
        """
        job = f"{self.array}_{element}"
        wait_until(lambda: self.states().get(job) == "PENDING", f"{job} to be queued again",
                   LONGEST_S)
        self.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now+3")

    def wait(self):
        wait_until(lambda: not self.states(), "all jobs to end", LONGEST_S)
        merge = self.cluster.run("scontrol", "show", "job", self.merge).stdout
        check("JobState=COMPLETED" in merge, f"the merge failed: {merge}")


def disturbed_array(cluster, program, root):
    for attempt in range(1, ATTEMPTS + 1):
        sweep = ArraySweep(cluster, program, root, f"attempt{attempt}")
        if sweep.disturb():
            return sweep
        sweep.cancel()
    raise AssertionError("the elements were always done before they could be disturbed")


def sweep_in_one_process(program, output):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("SLURM_")}
    subprocess.run([program, "sweep", *SWEEP, "--quiet", "--output", str(output)], check=True,
                   timeout=LONGEST_S, env=environment)
    return output.read_bytes()


def check_array(cluster, program, root):
    sweep = disturbed_array(cluster, program, root)
    for element in (KILLED, LOST, LATE):
        sweep.release(element)
    whole = sweep_in_one_process(program, cluster.jobs / "whole.jsonl")
    sweep.wait()
    check("killed; back to the queue, restart 1" in sweep.log(KILLED), sweep.log(KILLED))
    check("limit is near; back to the queue, restart 1" in sweep.log(LATE), sweep.log(LATE))
    for element in (KILLED, LOST, LATE):
        check(re.search(r"15 points, [1-9]\d* of them were there", sweep.log(element)),
              f"element {element} did not go on where it was: {sweep.log(element)}")
    check(whole.count(b"\n") == POINTS + 1 and b'"error"' not in whole, "rows are missing")
    merged = cluster.jobs / f"{sweep.name}.jsonl"
    check(merged.read_bytes() == whole, "the merged array differs from the sweep of one process")
    for ending in (".csv", ".svg"):
        check(merged.with_suffix(ending).exists(), f"the merge wrote no {ending}")


def main(program, root):
    missing = missing_programs()
    if missing:
        is_required = bool(os.environ.get("STEPSIM_REQUIRE_SLURM"))
        print(f"check_slurm: {'FAILED' if is_required else 'skipped'}: found no "
              f"{', '.join(missing)} (Debian packages slurm-wlm and munge)")
        return 1 if is_required else SKIPPED
    with Cluster(cpus=SHARDS) as cluster:
        try:
            check_array(cluster, program, root)
        except BaseException:
            print(cluster.logs())
            raise
    print("a job array gives the bytes of one process, with elements killed, lost and out of time")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
