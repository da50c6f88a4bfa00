#!/usr/bin/env python3
"""How long are our files and functions, and is one too long?

    python3 tools/dev/measure_sizes.py [ROOT]        the totals; fails when a limit is broken
    python3 tools/dev/measure_sizes.py --longest N   the N longest functions as well
    python3 tools/dev/measure_sizes.py --self-test   prove that the check can fail

Limits: 600 lines a file, 60 lines a function. Tables of data are exempt: a table that is no
function is not measured, a function that only fills a table says `// sizes: table` on a line
directly above it or inside it, and a file that is a table says so in its first 20 lines.
"""

import ast
import pathlib
import re
import sys

FILE_LIMIT = 600
FUNCTION_LIMIT = 60
EXEMPT = "sizes: table"
FOLDERS = ("sim", "models", "tools", "tests")
CPP = (".cc", ".h", ".cu")
SUFFIXES = (*CPP, ".py", ".sh", ".txt", ".js", "")
# Data of tests, not code.
DATA_FOLDERS = ("corpus", "golden", "data")

TOKEN = re.compile(r"""
    //[^\n]* | /\*.*?\*/                                   # comments
  | R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"  # raw strings
  | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'              # strings, characters
""", re.VERBOSE | re.DOTALL)
DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
TYPE_OR_NAMESPACE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$")
# What may stand between the parameter list and the body.
AFTER_PARAMETERS = re.compile(r"\)\s*(const|noexcept|override|final|mutable|&|&&|try|->[^;{}]*|\s)*$")
# A constructor's initialisers, up to a body or up to the brace of a member: `: a_(a), b_{b} {`.
INITIALISERS = re.compile(r"\)\s*(noexcept\s*)?:[^:].*$", re.DOTALL)


def blank(match):
    """Keeps the line breaks of a comment or a string, and nothing else."""
    return re.sub(r"[^\n]", " ", match.group(0))


def without_text(source):
    source = re.sub(r"^\s*#.*?(?<!\\)$", blank, source, flags=re.MULTILINE)
    return TOKEN.sub(blank, DIGIT_SEPARATOR.sub(" ", source))


def opens_function(head):
    """Is a brace after `head` (the text since the last ; { or }) the start of a function body?"""
    if "(" not in head or TYPE_OR_NAMESPACE.search(head):
        return False
    if AFTER_PARAMETERS.search(head):
        return True
    return bool(INITIALISERS.search(head)) and head.rstrip().endswith((")", "}"))


def opens_member(head):
    """Is a brace after `head` the initialiser of one member in a constructor's list?"""
    return bool(INITIALISERS.search(head)) and not opens_function(head)


def closing_brace(code, opening):
    depth = 0
    for match in re.finditer(r"[{}]", code[opening:]):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return opening + match.start()
    return len(code)


def cpp_functions(source):
    """Yields (name, first line, last line) of every function that is not inside another one."""
    code = without_text(source)
    head_start = position = 0
    while match := re.compile(r"[;{}]").search(code, position):
        head = code[head_start:match.start()]
        position = match.end()
        if match.group(0) == "{" and opens_member(head):
            position = closing_brace(code, match.start()) + 1
            continue
        if match.group(0) == "{" and opens_function(head):
            begin = match.start() - len(head.lstrip())
            position = closing_brace(code, match.start()) + 1
            name = re.search(r"([\w:~]+)\s*\(", head)
            yield (name.group(1) if name else "?", code.count("\n", 0, begin) + 1,
                   code.count("\n", 0, position) + 1)
        head_start = position


def python_functions(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def functions_of(path, source):
    if path.suffix in CPP:
        found = cpp_functions(source)
    elif path.suffix == ".py":
        found = python_functions(source)
    else:
        return
    lines = source.splitlines()
    for name, first, last in found:
        if not any(EXEMPT in line for line in lines[max(0, first - 2):last]):
            yield name, first, last - first + 1


def measure(path, name, source):
    """Returns (problems, [(length, place)]) of one file."""
    lines = source.splitlines()
    problems = []
    if len(lines) > FILE_LIMIT and not any(EXEMPT in line for line in lines[:20]):
        problems.append(f"{name}: {len(lines)} lines; the limit is {FILE_LIMIT}")
    sizes = []
    for function, first, length in functions_of(path, source):
        sizes.append((length, f"{name}:{first} {function}"))
        if length > FUNCTION_LIMIT:
            problems.append(f"{name}:{first}: {function} has {length} lines; "
                            f"the limit is {FUNCTION_LIMIT}")
    return problems, sizes


def source_files(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            hidden = any(part in DATA_FOLDERS for part in path.relative_to(root).parts)
            if path.is_file() and path.suffix in SUFFIXES and not hidden:
                yield path


def measure_tree(root, longest):
    problems, sizes, files, total = [], [], 0, 0
    for path in source_files(root):
        source = path.read_text(encoding="utf-8")
        found, lengths = measure(path, path.relative_to(root).as_posix(), source)
        problems += found
        sizes += lengths
        files += 1
        total += source.count("\n")
    sizes.sort(reverse=True)
    for length, place in sizes[:longest]:
        print(f"{length:5d}  {place}")
    mean = sum(length for length, _ in sizes) / max(1, len(sizes))
    print(f"{files} files, {total} lines, {len(sizes)} functions of {mean:.1f} lines on average")
    return problems if files else [f"{root}: no source file found"]


def self_test():
    body = "  Call();\n"
    long_function = "int F(int a) const {\n" + body * 60 + "}\n"
    table = "constexpr Row kRows[] = {\n" + "  {1, 2},\n" * 90 + "};\n"
    members = "struct S {\n" + "  int a = 0;\n" * 90 + "};\n"
    constructor = "S::S(int a)\n    : a_(a), b_{a} {\n" + body * 60 + "}\n"
    text = 'void F() { Say("{{{"); }  // {\n' + "int a;\n" * 90
    cases = (("x.cc", long_function, 1), ("x.cc", long_function.replace(body, "", 1), 1),
             ("x.cc", long_function.replace(body, "", 2), 0), ("x.cc", table, 0),
             ("x.cc", "// sizes: table\n" + long_function, 0), ("x.cc", members, 0),
             ("x.cc", "namespace n {\n" + long_function + table + "}\n", 1),
             ("x.cc", constructor, 1), ("x.h", text, 0), ("x.cc", "int a;\n" * 601, 1),
             ("x.cc", "TEST(A, B) {\n" + body * 60 + "}\n", 1), ("x.cc", "int a;\n" * 600, 0),
             ("x.py", "def f():\n" + "    g()\n" * 60, 1))
    return [f"self-test: expected {expected} problem(s) in case {index}, got {found}"
            for index, (name, source, expected) in enumerate(cases)
            if len(found := measure(pathlib.Path(name), name, source)[0]) != expected]


def main(arguments):
    if arguments == ["--self-test"]:
        problems = self_test()
    else:
        longest = 0
        if arguments[:1] == ["--longest"]:
            longest, arguments = int(arguments[1]), arguments[2:]
        root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).parents[2]
        problems = measure_tree(root, longest)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
