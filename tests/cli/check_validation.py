"""Does the evidence come out of `stepsim validate` as the program states it?

  check_validation.py STEPSIM SOURCE_FOLDER

Runs the collectives, kernels and memory of tests/data through the program and tools/dev/plot_validation.py into a
scratch folder. Ends with 77, which CTest counts as skipped, where matplotlib is missing.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
DEBIAN_PYTHON = "/usr/bin/python3"

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    if os.path.exists(DEBIAN_PYTHON) and os.path.realpath(sys.executable) != os.path.realpath(
            DEBIAN_PYTHON):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, "-B", *sys.argv])
    print(f"skipped: {error}; install python3-matplotlib")
    sys.exit(SKIPPED)

MOST_BYTES = 300_000  # of one picture
# Each export stands in for its slower variants: the script only compares their points.
RUNS = {"collectives": ["collectives", "collectives_left_out", "collectives_two_point",
                        "collectives_uncorrected"],
        "kernels": ["kernels", "kernels_left_out"],
        "memory": ["memory"]}
TABLES = {"collectives": "nccl_curves.csv", "kernels": "gemm_points.csv",
          "memory": "memory_published.csv"}


def export(stepsim, source, folder):
    """The program's own words about each kind."""
    printed = {}
    for kind, stems in RUNS.items():
        command = [stepsim, "--configs", str(source / "configs"), "validate", kind,
                   str(source / "tests/data" / TABLES[kind]), "--export", str(folder / f"{kind}.csv")]
        printed[kind] = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for stem in stems[1:]:
            shutil.copy(folder / f"{kind}.csv", folder / f"{stem}.csv")
    return printed


def draw(source, exports, results):
    results.mkdir()
    shutil.copy(source / "results/validation/README.md", results / "README.md")
    subprocess.run([sys.executable, "-B", str(source / "tools/dev/plot_validation.py"), str(exports),
                    str(results)], check=True)
    return {path.name: path.read_bytes() for path in sorted(results.iterdir())}


def problems(printed, files, again):
    if files != again:
        yield "two runs differ: " + ", ".join(n for n in files if files[n] != again.get(n))
    for name, content in files.items():
        if name.endswith(".png") and len(content) > MOST_BYTES:
            yield f"{name}: {len(content)} bytes, allowed: {MOST_BYTES}"
    page = files["README.md"].decode()
    # "all 965 68 5.4% 31.3% +0.4% ..." of the program, "| **all** | 965 | 68 | 5.4% | 31.3% | +0.4% |"
    words = re.search(r"^all\s+(.*)$", printed["collectives"], re.MULTILINE).group(1).split()
    row = "| **all** | " + " | ".join(words[:5]) + " |"
    if row not in page:
        yield f"the page lacks the program's own figures: {row}"
    words = re.search(r"^all  +(\d.*)$", printed["memory"], re.MULTILINE).group(1).split()
    row = "| **all** | " + " | ".join(words) + " |"
    if row not in page:
        yield f"the page lacks the program's own figures: {row}"
    for line in re.findall(r"^(\S+) +(\S+) +(gemm|grouped) +(\d+) +(\S+) +(\S+) +(\S+) ",
                           printed["kernels"], re.MULTILINE):
        if "| " + " | ".join(line) + " |" not in page:
            yield f"the page lacks the program's own figures: {line}"


def main():
    stepsim, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "exports").mkdir()
        printed = export(stepsim, source, folder / "exports")
        files = draw(source, folder / "exports", folder / "one")
        again = draw(source, folder / "exports", folder / "two")
        found = list(problems(printed, files, again))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
