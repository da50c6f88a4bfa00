#!/usr/bin/env python3
"""Which lines of sim and models does no test run?

    cmake --workflow --preset coverage && python3 tools/dev/coverage.py

Prints covered and all lines per folder, then the least covered files with their unrun lines.
A file that no test links does not appear.
"""

import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORST = 15


def reports(build):
    """Yields gcov's JSON report of every object that a test has run."""
    data = sorted(build.rglob("*.gcda"))
    with tempfile.TemporaryDirectory() as folder:
        for path in data:
            subprocess.run(["gcov", "--json-format", "--object-directory", str(path.parent),
                            str(path)], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            for report in pathlib.Path(folder).glob("*.gcov.json.gz"):
                yield json.loads(gzip.decompress(report.read_bytes()))
                report.unlink()


def count_lines(build):
    """File -> line -> how often it ran, summed over all objects."""
    counts = collections.defaultdict(collections.Counter)
    for report in reports(build):
        for entry in report["files"]:
            path = pathlib.Path(report["current_working_directory"], entry["file"]).resolve()
            if not path.is_relative_to(ROOT):
                continue
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(("sim/", "models/")):
                for line in entry["lines"]:
                    counts[name][line["line_number"]] += line["count"]
    return counts


def main():
    counts = count_lines(ROOT / "build" / "coverage")
    if not counts:
        print("no counters: run `cmake --workflow --preset coverage` first")
        return 1
    folders = collections.defaultdict(lambda: [0, 0])
    for name, lines in counts.items():
        ran = sum(1 for count in lines.values() if count)
        for key in (name.rsplit("/", 1)[0], "all"):
            folders[key][0] += ran
            folders[key][1] += len(lines)
    for name, (ran, lines) in sorted(folders.items()):
        print(f"{ran / lines:6.1%}  {ran:5d} of {lines:5d}  {name}")
    unrun = {name: [line for line, count in sorted(lines.items()) if not count]
             for name, lines in counts.items()}
    print("\nlines that no test runs:")
    for name in sorted(unrun, key=lambda name: -len(unrun[name]))[:WORST]:
        if unrun[name]:
            print(f"{name}: {', '.join(map(str, unrun[name]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
