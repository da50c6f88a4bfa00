#!/usr/bin/env python3
"""Is the tree tidy: nothing that belongs to one machine, nothing that is built or tested nowhere?

    python3 tests/layering/check_repository.py [ROOT]      check the tree
    python3 tests/layering/check_repository.py --self-test prove that the check can fail
"""

import pathlib
import re
import subprocess
import sys
import tempfile

TOP_LEVEL = ("CMakeLists.txt", "sim", "models", "configs", "tools", "tests", "results", "README.md",
             "CMakePresets.json", "CHANGELOG.md", "LICENSE", "CONTRIBUTING.md")

# An absolute path into somebody's home or scratch folder. `sim/graph/work.h` is none.
MACHINE_PATH = re.compile(r"(?<![\w.}\])*-])/(?:home/\w|root\b|work\b|farm\b|tmp/)")

# Spellings that libraries must not use, and why. Comments are not looked at.
LIBRARY_BAN = (
    (re.compile(r"\bstd::(ranges|views|format|jthread|pmr|source_location)\b"),
     "is not in Clang 14 with libc++ 14"),
    (re.compile(r"\busing\s+namespace\b"), "hides where names come from"),
    (re.compile(r"\bstd::(cout|cerr|clog)\b|\bf?printf\s*\(|\bfmt::print\b"),
     "prints; a library returns text or writes to a stream that it is given"),
    (re.compile(r"\b(std::)?(exit|abort|_Exit|quick_exit)\s*\("),
     "ends the program; a library throws"),
)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def tracked_files(root):
    """The files git knows or would add; without git, every file outside hidden and build folders."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
               "--exclude-standard"]
    try:
        listing = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        names = [name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith((".", "build/", "out/"))]
    return sorted(name for name in names if (root / name).is_file() and "__pycache__" not in name)


def top_level_problems(names):
    top = {name.split("/")[0] for name in names}
    for name in sorted(top):
        if not name.startswith(".") and name not in TOP_LEVEL:
            yield f"{name}: not one of the top-level entries {', '.join(TOP_LEVEL)}"


def machine_path_problems(root, names):
    for name in names:
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line) and not name.endswith("check_repository.py"):
                yield f"{name}:{number}: a path of one machine: {line.strip()[:80]}"


def listed_sources(root, names):
    """Every path that a CMakeLists.txt spells out, relative to the root."""
    listed = set()
    for name in names:
        if pathlib.PurePosixPath(name).name == "CMakeLists.txt":
            text = re.sub(r"#[^\n]*", "", (root / name).read_text(encoding="utf-8"))
            folder = pathlib.PurePosixPath(name).parent
            listed.update((folder / word).as_posix() for word in re.findall(r"[^\s()\"]+", text))
    return listed


def unlisted_problems(root, names):
    listed = listed_sources(root, names)
    for name in names:
        is_source = name.endswith(".cc") and name.split("/")[0] in ("sim", "models", "tools", "tests")
        is_check = re.fullmatch(r"tests/.*check_\w+\.py", name)
        if (is_source or is_check) and name not in listed:
            yield f"{name}: no CMakeLists.txt lists it, so it is neither built nor run"


def library_problems(root, names):
    for name in names:
        if not name.endswith((".cc", ".h")) or name.split("/")[0] not in ("sim", "models"):
            continue
        code = COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                                     (root / name).read_text(encoding="utf-8"))
        if name == "sim/base/check.h":
            continue
        for pattern, why in LIBRARY_BAN:
            for match in pattern.finditer(code):
                line = code.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: {match.group(0).strip()} {why}"


def check_tree(root):
    names = tracked_files(root)
    if not names:
        return [f"{root}: no file found"]
    return [*top_level_problems(names), *machine_path_problems(root, names),
            *unlisted_problems(root, names), *library_problems(root, names)]


# (file, its text, a word of the expected problem or None)
SELF_TEST = (
    ("notes.txt", "", "top-level"),
    ("README.md", "see " + "/home" + "/someone/x", "machine"),
    ("README.md", "cd " + "/tmp" + "/x", "machine"),
    ("README.md", "sim/graph/work.h and models/work, https://a.b/root.html", None),
    ("sim/base/lost.cc", "", "no CMakeLists.txt"),
    ("sim/base/units.cc", "std::string s;  // never std::cout", None),
    ("sim/base/units.cc", "std::cout << 1;", "prints"),
    ("sim/base/units.cc", "std::exit(1);", "ends"),
    ("sim/base/units.cc", "using namespace std;", "hides"),
    ("models/units.h", "std::ranges::sort(a);", "libc++"),
    ("tests/lost_test.cc", "", "no CMakeLists.txt"),
    ("tests/layering/check_lost.py", "", "no CMakeLists.txt"),
)


def self_test():
    wrong = []
    for name, text, expected in SELF_TEST:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, content in (("sim/CMakeLists.txt", "add(base/units.cc)"), (name, text)):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content, encoding="utf-8")
            problems = "\n".join(check_tree(root))
        if (expected is None) != (problems == "") or (expected or "") not in problems:
            wrong.append(f"self-test: {name} {text!r}: expected {expected}, got {problems!r}")
    return wrong


def main(arguments):
    if arguments == ["--self-test"]:
        problems = self_test()
    else:
        root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).parents[2]
        problems = check_tree(root.resolve())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
