#!/usr/bin/env python3
"""Writes what commands print into README.md.

    tools/dev/update_readme.py [BUILD_FOLDER]      default: build/release

A block that follows a line `<!-- output: stepsim ... -->` is replaced by that command's output.
A test compares the blocks with the program, so that the README cannot go stale.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- output: stepsim (.*?) -->\n```\n)(.*?)(```\n)", re.DOTALL)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()

    def rerun(match):
        command = [build / "bin/stepsim", *match[2].split()]
        output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return match[1] + output + match[4]

    readme = ROOT / "README.md"
    readme.write_text(BLOCK.sub(rerun, readme.read_text()))


if __name__ == "__main__":
    main()
