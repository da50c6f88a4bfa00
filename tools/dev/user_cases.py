#!/usr/bin/env python3
"""What does stepsim answer to the questions of practitioners? Runs tests/cases/*.yaml through their test
and writes the table.

    tools/dev/user_cases.py [--test build/check/bin/user_cases_test] [--out results/validation/user_cases.md]

A test that fails leaves the table as it is.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """# Questions of practitioners

    tools/dev/user_cases.py

runs every case of `tests/cases/*.yaml` and writes this page. Each row is a question that somebody asked in public
(follow the link), what they measured as an expectation, and what the simulator says. Whatever is reached is what stands
here; a job states what its source gives and defaults elsewhere ("not given" names what is missing), and nothing is
fitted but what a row lists as *found*: numbers that other measurements of the same case fix, by bisection.

**pass**: all expectations hold. **not yet**: one does not (marked with a cross), or the answer is there in part.
**not modelled**: the simulator has no answer.
"""


def run(test):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = subprocess.run([test, "--gtest_filter=*SaysWhatWasMeasured*", f"--gtest_output=json:{report}"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr + "error: a case does not say what its file states")
        suites = json.loads(report.read_text(encoding="utf-8"))["testsuites"]
    return sorted((case for suite in suites for case in suite["testsuite"]), key=lambda c: c["case"])


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def expectations(case):
    number = 1
    while f"claim_{number}" in case:
        yield {key: case[f"{key}_{number}"] for key in ("kind", "claim", "tolerance", "reached", "holds")}
        number += 1


def expected(case):
    lines = [f"{i}. {e['claim']}" + (f": {e['tolerance']}" if e["tolerance"] else "") + f" ({e['kind']})"
             for i, e in enumerate(expectations(case), 1)]
    return "<br>".join(map(cell, [f"Measured: {case['measured']}", *lines]))


def said(case):
    lines = [f"{i}. {e['reached']}" + ("" if e["holds"] == "yes" else " ✗")
             for i, e in enumerate(expectations(case), 1)]
    if case["found"]:
        lines.append(f"Found: {case['found']}")
    lines += [f"Test `{test.split()[-1]}`" for test in case["tests"].split("; ") if test]
    return "<br>".join(map(cell, lines)) or "–"


def remarks(case):
    lines = [case["why"]] if case["why"] else []
    if case["missing"]:
        lines.append(f"Not given: {case['missing']}")
    return "<br>".join(map(cell, lines))


def table(cases):
    rows = ["| case | verdict | question | expected | stepsim says | why, and what is not given |",
            "| --- | --- | --- | --- | --- | --- |"]
    for case in cases:
        rows.append("| " + " | ".join([f"[{case['case']}]({case['source']})", case["verdict"],
                                       cell(case["question"]), expected(case), said(case),
                                       remarks(case)]) + " |")
    return "\n".join(rows)


def page(cases):
    whole = [case for case in cases if case["tier"] == "A"]
    rest = [case for case in cases if case["tier"] != "A"]
    count = collections.Counter(case["verdict"] for case in whole)
    summary = ", ".join(f"{count[verdict]} {verdict}" for verdict in ("pass", "not yet", "not modelled"))
    return "\n".join([HEAD, "## Cases that give what an answer needs", "", f"{len(whole)}: {summary}.", "",
                      table(whole), "", "## Cases in which something stands in for what is not given", "",
                      table(rest), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--test", default=ROOT / "build/check/bin/user_cases_test")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results/validation/user_cases.md")
    options = parser.parse_args()
    text = page(run(options.test))
    options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
