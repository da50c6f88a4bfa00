"""How far are predictions from measurements? Reads what `stepsim validate --export` wrote and turns it
into statistics and Markdown tables. Used by plot_validation.py; only the standard library.
"""
import collections
import csv
import math
import pathlib
import sys

MIB = 1 << 20
CLASSES = {
    "nvlink": "one node, NVLink",
    "ib_roce": "nodes over InfiniBand or RoCE",
    "cloud": "nodes over a cloud's transport",
    "multi_rack": "racks joined by NVLink",
    "pcie_shm": "one node, PCIe or shared memory",
    "tcp": "nodes over TCP sockets",
}
# One export per way of predicting the same points: file stem, column of the joint table.
COLLECTIVE_RUNS = {"collectives": "predicted_us", "collectives_left_out": "left_out_us",
                   "collectives_two_point": "two_point_us",
                   "collectives_uncorrected": "uncorrected_us"}
KERNEL_RUNS = {"kernels": "predicted_us", "kernels_left_out": "left_out_us"}


def read_run(folder, stem):
    path = pathlib.Path(folder) / f"{stem}.csv"
    if not path.exists():
        sys.exit(f"error: {path} is missing; tools/dev/validate.sh writes it")
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def join_runs(folder, runs, key):
    """One row per measurement with the prediction of every run; "" where it was told or has none."""
    tables = {column: read_run(folder, stem) for stem, column in runs.items()}
    first = next(iter(tables.values()))
    rows = []
    for i, base in enumerate(first):
        row = dict(base)
        for column, table in tables.items():
            if len(table) != len(first) or key(table[i]) != key(base):
                sys.exit("error: the exports do not hold the same points; run tools/dev/validate.sh")
            is_told = table[i]["status"] == "calibration"
            row[column] = "" if is_told else table[i]["predicted_us"]
        rows.append(row)
    return rows


def read_collectives(folder):
    rows = join_runs(folder, COLLECTIVE_RUNS,
                     lambda r: (r["system_id"], r["collective"], r["size_bytes"], r["measured_us"]))
    for row in rows:
        row["is_scored"] = row["status"] == "ok"
        row["is_large"] = int(row["size_bytes"]) >= MIB
    return rows


def read_kernels(folder):
    rows = join_runs(folder, KERNEL_RUNS, lambda r: (r["row"], r["measured_us"]))
    left_out = read_run(folder, "kernels_left_out")
    for row, other in zip(rows, left_out):
        row["is_scored"] = row["predicted_us"] != ""
        row["was_left_out"] = other["status"] == "left out"
        row["kind"] = "grouped" if int(row["groups"]) > 1 else "gemm"
    return rows


def write_csv(path, rows, columns):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# ---- Statistics: as `stepsim validate` has them ----

Summary = collections.namedtuple("Summary", "count median p90 bias")


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    below = math.floor(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def errors_of(rows, column):
    return [float(r[column]) / float(r["measured_us"]) - 1
            for r in rows if r["is_scored"] and r[column]]


def summarize(rows, column):
    errors = errors_of(rows, column)
    if not errors:
        return None
    sizes = [abs(e) for e in errors]
    return Summary(len(errors), quantile(sizes, 0.5), quantile(sizes, 0.9), quantile(errors, 0.5))


# ---- Markdown ----

def percent(value, sign=""):
    return f"{value * 100:{sign}.1f}%"


def three(summary):
    if summary is None:
        return ["", "", ""]
    return [percent(summary.median), percent(summary.p90), percent(summary.bias, "+")]


def markdown(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def collective_selections(rows):
    """(name, rows) of the table: all, by size, by class and size."""
    yield "**all**", rows
    yield "below 1 MiB", [r for r in rows if not r["is_large"]]
    yield "from 1 MiB", [r for r in rows if r["is_large"]]
    for key, name in CLASSES.items():
        members = [r for r in rows if r["class"] == key]
        yield f"**{name}**", members
        yield "&nbsp; below 1 MiB", [r for r in members if not r["is_large"]]
        yield "&nbsp; from 1 MiB", [r for r in members if r["is_large"]]


def collective_table(rows):
    lines = []
    for name, members in collective_selections([r for r in rows if r["is_scored"]]):
        fitted = summarize(members, "predicted_us")
        if fitted is None:
            continue
        told = summarize(members, "two_point_us")
        plain = summarize(members, "uncorrected_us")
        lines.append([name, fitted.count, len({r["system_id"] for r in members}), *three(fitted),
                      *three(summarize(members, "left_out_us")),
                      percent(told.median) if told else "",
                      percent(plain.median) if plain else ""])
    return markdown(["", "points", "systems", "fitted: median", "p90", "bias",
                     "system left out: median", "p90", "bias", "two points told: median",
                     "uncorrected: median"], lines)


def operation_table(rows):
    scored = [r for r in rows if r["is_scored"]]
    lines = []
    for op in sorted({r["collective"] for r in scored}):
        members = [r for r in scored if r["collective"] == op]
        lines.append([op, len(members), *three(summarize(members, "predicted_us")),
                      *three(summarize(members, "left_out_us"))])
    return markdown(["collective", "points", "fitted: median", "p90", "bias",
                     "system left out: median", "p90", "bias"], lines)


def system_table(rows, most=12):
    """The systems that the others predict worst."""
    systems = collections.defaultdict(list)
    for row in rows:
        if row["is_scored"]:
            systems[row["system_id"]].append(row)
    ranked = []
    for system, members in systems.items():
        left_out = summarize(members, "left_out_us")
        if left_out:
            ranked.append((left_out.median, system, members, left_out))
    ranked.sort(key=lambda entry: (-entry[0], entry[1]))
    lines = [[system, CLASSES.get(members[0]["class"], members[0]["class"]), left_out.count,
              *three(left_out), percent(summarize(members, "predicted_us").median)]
             for _, system, members, left_out in ranked[:most]]
    return markdown(["system", "", "points", "left out: median", "p90", "bias", "fitted: median"],
                    lines)


def aside_table(rows):
    """What is not scored, and why."""
    counts = collections.defaultdict(list)
    for row in rows:
        if not row["is_scored"]:
            counts[row["status"]].append(row["system_id"])
    lines = [[status, len(ids), ", ".join(sorted(set(ids)))] for status, ids in sorted(counts.items())]
    return markdown(["status", "points", "systems"], lines) if lines else "Every point is scored."


def kernel_groups(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        if row["is_scored"]:
            groups[row["profile"], row["dtype"], row["kind"]].append(row)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def kernel_table(rows):
    lines = []
    for (profile, dtype, kind), members in kernel_groups(rows):
        shipped, left_out = (summarize(members, c) for c in ("predicted_us", "left_out_us"))
        has_fit = any(r["was_left_out"] for r in members)
        lines.append([profile, dtype, kind, shipped.count, *three(shipped),
                      *(three(left_out) if has_fit else ["no fit: too few shapes", "", ""])])
    return markdown(["profile", "dtype", "", "points", "shipped curve: median", "p90", "bias",
                     "shape left out: median", "p90", "bias"], lines)


def accuracy_table(collectives, kernels, more=()):
    """A few lines for the project's front page."""
    scored = [r for r in collectives if r["is_scored"]]
    large = [r for r in scored if r["is_large"]]
    lines = []

    def add(name, rows, fitted, unseen):
        first, second = summarize(rows, fitted), summarize(rows, unseen)
        if first and second:
            lines.append([name, first.count, percent(first.median), percent(second.median),
                          percent(second.p90)])

    add("collectives, all", scored, "predicted_us", "left_out_us")
    add("collectives from 1 MiB", large, "predicted_us", "left_out_us")
    for key in ("nvlink", "ib_roce", "cloud", "multi_rack", "pcie_shm", "tcp"):
        add(f"collectives, {CLASSES[key]}", [r for r in scored if r["class"] == key],
            "predicted_us", "left_out_us")
    for (profile, dtype, kind), members in kernel_groups(kernels):
        if any(r["was_left_out"] for r in members):
            name = "matrix products" if kind == "gemm" else "grouped matrix products"
            add(f"{name}, {profile}, {dtype}", members, "predicted_us", "left_out_us")
    lines += more
    return markdown(["", "points", "median error, seen", "median error, unseen", "p90, unseen"],
                    lines)
