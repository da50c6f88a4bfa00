#!/usr/bin/env python3
"""Turns the exports of `stepsim validate` into results/validation/: called by validate.sh.

    tools/dev/plot_validation.py EXPORTS [RESULTS]      default RESULTS: results/validation

Reads EXPORTS/collectives*.csv, kernels*.csv and memory.csv; writes collectives.csv, kernels.csv, memory.csv,
the pictures and the tables between the markers of RESULTS/README.md and of the README.md at the top. Equal input gives
equal bytes.
"""
import collections
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import memory_tables  # noqa: E402
from fill_markers import fill_markers  # noqa: E402
from plotting import DPI, MARKERS, PALETTE, plt, style  # noqa: E402
import validation_tables as tables  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BAND = 0.2
MEMORY_BAND = 0.1
TYPE_MARKERS = {"bf16": "o", "fp16": "s", "fp32": "^", "tf32": "v", "fp8": "D"}
GROUPED_MARKER = "x"
FEW_SHAPES = 20  # GPUs with fewer share one colour
Series = collections.namedtuple("Series", "name rows colour marker")
BAND_COLOUR = "#E4E4E4"
PANEL_INCHES = 6.2

COLLECTIVE_COLUMNS = ["system_id", "collective", "ranks", "size_bytes", "class", "status",
                      "measured_us", "predicted_us", "left_out_us", "two_point_us", "uncorrected_us",
                      "algorithm", "protocol"]
KERNEL_COLUMNS = ["row", "gpu", "profile", "m", "n", "k", "groups", "layout", "dtype",
                  "measured_us", "predicted_us", "left_out_us"]


def microseconds(value, _=None):
    for limit, factor, unit in ((1e3, 1, "us"), (1e6, 1e3, "ms"), (float("inf"), 1e6, "s")):
        if value < limit:
            return f"{value / factor:g} {unit}"
    return ""


def size_text(value, _=None):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:g} {unit}"
        value /= 1024
    return ""


def limits_of(rows, columns):
    values = [float(r[c]) for r in rows for c in columns if r[c]]
    return min(values) / 1.6, max(values) * 1.6


def label_of(name, summary):
    return f"{name}: {summary.count} points, median {tables.percent(summary.median)}"


def draw_points(axes, one, x, y, label):
    line = 0.8 if one.marker == GROUPED_MARKER else 0  # a cross is nothing but lines
    axes.scatter(x, y, s=13, marker=one.marker, color=one.colour, alpha=0.65, linewidths=line,
                 zorder=3, label=label)


def draw_panel(axes, series, column, limits, title):
    """A series without points is left out; the others keep their colours."""
    low, high = limits
    axes.fill_between([low, high], [low * (1 - BAND), high * (1 - BAND)],
                      [low * (1 + BAND), high * (1 + BAND)], color=BAND_COLOUR, zorder=1,
                      label=f"within {BAND:.0%}")
    axes.plot([low, high], [low, high], color="#333333", linewidth=0.9, zorder=2)
    for one in series:
        summary = tables.summarize(one.rows, column)
        if summary is None:
            continue
        points = [r for r in one.rows if r["is_scored"] and r[column]]
        draw_points(axes, one, [float(r["measured_us"]) for r in points],
                    [float(r[column]) for r in points], label_of(one.name, summary))
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits, title=title, xlabel="measured",
             aspect="equal")
    axes.xaxis.set_major_formatter(FuncFormatter(microseconds))
    axes.yaxis.set_major_formatter(FuncFormatter(microseconds))
    axes.legend(loc="upper left", fontsize=7.5, markerscale=1.6)


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_scatter(path, series, panels):
    """One panel per (column, title), all with the same axes."""
    rows = [r for one in series for r in one.rows if r["is_scored"]]
    limits = limits_of(rows, ["measured_us"] + [column for column, _ in panels])
    figure, axes = plt.subplots(1, len(panels), figsize=(PANEL_INCHES * len(panels), PANEL_INCHES),
                                squeeze=False)
    for panel, (column, title) in zip(axes[0], panels):
        draw_panel(panel, series, column, limits, title)
    axes[0][0].set_ylabel("predicted")
    save(figure, path)


def median_ratios(series, column):
    """Sizes, rounded to powers of two, and the median of predicted / measured at each."""
    ratios = {}
    for one in series:
        for row in one.rows:
            if row["is_scored"] and row[column]:
                size = 2 ** round(math.log2(int(row["size_bytes"])))
                ratios.setdefault(size, []).append(float(row[column]) / float(row["measured_us"]))
    sizes = sorted(ratios)
    return sizes, [tables.quantile(ratios[size], 0.5) for size in sizes]


def draw_ratio(path, series, column, title):
    """Predicted over measured by message size: where along the curve are predictions off?"""
    figure, axes = plt.subplots(figsize=(PANEL_INCHES * 1.8, PANEL_INCHES * 0.8))
    axes.axhspan(1 - BAND, 1 + BAND, color=BAND_COLOUR, zorder=1, label=f"within {BAND:.0%}")
    axes.axhline(1, color="#333333", linewidth=0.9, zorder=2)
    for one in series:
        points = [r for r in one.rows if r["is_scored"] and r[column]]
        if points:
            draw_points(axes, one, [int(r["size_bytes"]) for r in points],
                        [float(r[column]) / float(r["measured_us"]) for r in points], one.name)
    axes.plot(*median_ratios(series, column), color="#000000", linewidth=1.4, zorder=4,
              label="median of all points of a size")
    axes.set(title=title, xlabel="message size", ylabel="predicted / measured", yscale="log")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(size_text))
    ticks = [0.1, 0.2, 0.33, 0.5, 0.8, 1, 1.25, 2, 3, 5, 10]
    low, high = axes.get_ylim()
    axes.set_yticks([t for t in ticks if low <= t <= high])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), fontsize=8, markerscale=1.6, ncol=4)
    save(figure, path)


def draw_collectives(results, rows):
    series = [Series(name, [r for r in rows if r["class"] == key], PALETTE[i], MARKERS[i])
              for i, (key, name) in enumerate(tables.CLASSES.items())]
    draw_scatter(results / "collectives.png", series,
                 [("predicted_us", "corrections fitted to all systems"),
                  ("left_out_us", "each system predicted by the others")])
    draw_scatter(results / "collectives_ends.png", series,
                 [("uncorrected_us", "NCCL's model over the links, uncorrected"),
                  ("two_point_us", "two measured points told per system and collective")])
    draw_ratio(results / "collectives_by_size.png", series, "left_out_us",
               "collectives, each system predicted by the others")


def kernel_series(rows):
    """A colour per machine, a marker per element type; machines with few shapes are one series."""
    large, others, colours = [], [], {}
    for (profile, dtype, kind), members in tables.kernel_groups(rows):
        is_few = len(members) < FEW_SHAPES
        if is_few or len(colours) == len(PALETTE) - 1 and profile not in colours:
            others += members
            continue
        colour = colours.setdefault(profile, PALETTE[len(colours)])
        is_grouped = kind == "grouped"
        large.append(Series(f"{profile} {dtype}" + (" grouped" if is_grouped else ""), members, colour,
                            GROUPED_MARKER if is_grouped else TYPE_MARKERS.get(dtype, "P")))
    return large + [Series("others", others, PALETTE[-1], "*")]


def draw_kernels(results, rows):
    draw_scatter(results / "kernels.png", kernel_series(rows),
                 [("predicted_us", "matrix products, the profiles' curves"),
                  ("left_out_us", "matrix products, each shape predicted by the others")])


def draw_memory(results, rows):
    """Gibibytes of one GPU; a colour and a marker per source."""
    figure, axes = plt.subplots(figsize=(PANEL_INCHES, PANEL_INCHES))
    scored = memory_tables.scored(rows)
    high = 1.08 * max(float(r[c]) for r in scored for c in ("measured_gib", "predicted_gib"))
    axes.fill_between([0, high], [0, high * (1 - MEMORY_BAND)], [0, high * (1 + MEMORY_BAND)],
                      color=BAND_COLOUR, zorder=1, label=f"within {MEMORY_BAND:.0%}")
    axes.plot([0, high], [0, high], color="#333333", linewidth=0.9, zorder=2)
    for i, (key, name) in enumerate(memory_tables.SOURCES.items()):
        members = memory_tables.distinct([r for r in scored if r["source"] == key])
        median = tables.percent(memory_tables.summarize(members).median)
        axes.scatter([float(r["measured_gib"]) for r in members],
                     [float(r["predicted_gib"]) for r in members], s=22, marker=MARKERS[i],
                     color=PALETTE[i], alpha=0.7, linewidths=0, zorder=3,
                     label=f"{name}: {len(members)} runs, median {median}")
    axes.set(xlim=(0, high), ylim=(0, high), aspect="equal", xlabel="published peak, GiB",
             ylabel="predicted, GiB", title="memory of the fullest GPU, closed form")
    axes.legend(loc="upper left", fontsize=7.5, markerscale=1.3)
    save(figure, results / "memory.png")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    exports = pathlib.Path(sys.argv[1])
    results = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / "results" / "validation"
    collectives, kernels = tables.read_collectives(exports), tables.read_kernels(exports)
    memory = memory_tables.read(exports)
    tables.write_csv(results / "collectives.csv", collectives, COLLECTIVE_COLUMNS)
    tables.write_csv(results / "kernels.csv", kernels, KERNEL_COLUMNS)
    tables.write_csv(results / "memory.csv", memory, memory_tables.COLUMNS)
    style()
    draw_collectives(results, collectives)
    draw_kernels(results, kernels)
    draw_memory(results, memory)
    fill_markers(results / "README.md", {
        "collectives": tables.collective_table(collectives),
        "operations": tables.operation_table(collectives),
        "systems": tables.system_table(collectives),
        "aside": tables.aside_table(collectives),
        "kernels": tables.kernel_table(kernels),
        "memory": memory_tables.memory_table(memory),
        "memory_worst": memory_tables.worst_table(memory),
        "memory_aside": memory_tables.aside_table(memory),
    })
    if len(sys.argv) == 2:
        fill_markers(ROOT / "README.md",
                            {"accuracy": tables.accuracy_table(collectives, kernels, memory_tables.accuracy_lines(memory))})


if __name__ == "__main__":
    main()
