#!/usr/bin/env python3
"""Tables and pictures of results/validation/ddp_live.md from ddp_live.csv (see tools/dev/ddp_live.sh).

    tools/dev/plot_ddp_live.py [CSV]     default: results/validation/ddp_live.csv
"""
import csv
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
from plotting import DPI, MARKERS, PALETTE, plt, style  # noqa: E402
from fill_markers import fill_markers  # noqa: E402

PAGE = ROOT / "results" / "validation" / "ddp_live.md"

# Link of the table -> what it is, in the order of the page.
LINKS = {
    "veth_tbf_1g": "1 Gb/s token bucket",
    "veth_tbf_1g_variants": "the same, other settings",
    "veth_tbf_1g_1thread": "the same, one gloo thread",
    "tun_1ms_1g": "1 ms, 1 Gb/s",
    "tun_1ms_1g_1thread": "the same, one gloo thread",
    "tun_250us_4g": "250 us, 4 Gb/s: bound by the CPU",
    "lo": "loopback: bound by the CPU",
    "emulated_one_rank": "emulated",
    "emulated_more": "emulated, other latencies and rates",
    "emulated_contended": "emulated, with known contention",
}


def quantile(values, q):
    """Linear between neighbours, as stepsim's tables have it."""
    values = sorted(values)
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


class Curve:
    """One configuration on one link, by ascending cap."""

    def __init__(self, rows):
        self.rows = sorted(rows, key=lambda row: row["bucket_cap_mb"])

    def best(self):
        """(measured cap, predicted cap, layouts apart, cost of the choice)"""
        layouts = []
        for row in self.rows:
            if not layouts or layouts[-1][0]["buckets"] != row["buckets"]:
                layouts.append([])
            layouts[-1].append(row)
        def step_of(layout, key):
            return statistics.median(row[key] for row in layout)
        measured = min(range(len(layouts)), key=lambda i: step_of(layouts[i], "measured_us"))
        chosen = min(range(len(layouts)), key=lambda i: step_of(layouts[i], "predicted_us"))
        cost = step_of(layouts[chosen], "measured_us") / step_of(layouts[measured], "measured_us") - 1
        return (layouts[measured][0]["bucket_cap_mb"], layouts[chosen][0]["bucket_cap_mb"],
                chosen - measured, 100 * cost)


def read(path):
    rows = []
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.append({key: value if key in ("link", "config") else float(value)
                         for key, value in row.items()})
    return rows


def group(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def error_cells(rows):
    steps = [row["error_pct"] for row in rows]
    sizes = [abs(e) for e in steps]
    exposed = [abs(row["exposed_error_pct"]) for row in rows]
    return (f"{len(rows)} | {quantile(sizes, .5):.1f}% | {quantile(sizes, .9):.1f}% | {max(sizes):.1f}% | "
            f"{quantile(steps, .5):+.1f}% | {quantile(exposed, .5):.1f}% | {quantile(exposed, .9):.1f}%")


def link_table(rows):
    lines = ["| link |  | points | step: median | p90 | largest | bias | exposed: median | p90 |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
             f"| **all** |  | {error_cells(rows)} |"]
    by_link = group(rows, lambda row: row["link"])
    bound = [r for r in rows if not LINKS.get(r["link"], "").endswith("bound by the CPU")]
    lines.append(f"| **all but the two bound by the CPU** |  | {error_cells(bound)} |")
    for link in sorted(by_link, key=lambda name: (list(LINKS) + [name]).index(name)):
        lines.append(f"| {link} | {LINKS.get(link, '')} | {error_cells(by_link[link])} |")
    return "\n".join(lines)


def curve_table(rows):
    lines = ["| link | network | points | step: median | p90 | largest | bias | exposed: median | p90 "
             "| best cap, measured | predicted | layouts apart | costs |",
             "| --- " * 13 + "|"]
    for (link, config), points in group(rows, lambda r: (r["link"], r["config"])).items():
        measured, chosen, apart, cost = Curve(points).best()
        lines.append(f"| {link} | {config} | {error_cells(points)} | {measured:g} | {chosen:g} | "
                     f"{apart:+d} | {cost:.1f}% |")
    return "\n".join(lines)


def fit_table(rows):
    lines = ["| link | latency | rate | fit within | of the core | time slice |",
             "| --- | --- | --- | --- | --- | --- |"]
    for link, points in group(rows, lambda r: r["link"]).items():
        if link.startswith("emulated"):
            continue
        p = points[0]
        lines.append(f"| {link} | {p['link_latency_us'] / 1e3:.2f} ms | {p['link_mb_per_s']:.0f} MB/s | "
                     f"{p['link_residual_pct']:.1f}% | {p['core_demand_pct']:.0f}% | "
                     f"{p['core_wait_us'] / 1e3:.1f} ms |")
    return "\n".join(lines)


def best_summary(rows):
    curves = [Curve(points).best()
              for points in group(rows, lambda r: (r["link"], r["config"])).values()]
    near = sum(abs(apart) <= 1 for _, _, apart, _ in curves)
    cheap = sum(cost <= 2 for _, _, _, cost in curves)
    return (f"The best bucket is predicted within one step of the sweep on {near} of {len(curves)} curves; on {cheap} "
            f"the predicted one costs at most 2% of a step.")


def draw(rows, links, path):
    curves = [(key, Curve(points)) for key, points in
              group([r for r in rows if r["link"] in links], lambda r: (r["link"], r["config"])).items()]
    columns = 3
    lines = (len(curves) + columns - 1) // columns
    figure, axes = plt.subplots(lines, columns, figsize=(11, 2.5 * lines), squeeze=False)
    for axis in axes.flat[len(curves):]:
        axis.axis("off")
    for axis, ((link, config), curve) in zip(axes.flat, curves):
        caps = [row["bucket_cap_mb"] for row in curve.rows]
        for (key, name), color, marker in zip((("measured", "measured"), ("predicted", "predicted")),
                                              PALETTE, MARKERS):
            axis.plot(caps, [row[f"{key}_us"] / 1e3 for row in curve.rows], marker=marker, ms=4,
                      color=color, label=name)
        axis.plot(caps, [row["measured_no_comm_us"] / 1e3 for row in curve.rows], color=PALETTE[-1],
                  lw=0.9, ls=":", label="measured without communication")
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title(f"{link}: {config}", fontsize=8.5)
        axis.tick_params(labelsize=8)
    axes.flat[0].legend(fontsize=7, loc="lower right")
    for axis in axes[:, 0]:
        axis.set_ylabel("step, ms", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("bucket_cap_mb", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    plt.close(figure)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else ROOT / "results" / "validation" / "ddp_live.csv"
    rows = read(path)
    style()
    real = [link for link in LINKS if not link.startswith(("emulated", "veth_tbf_1g_variants"))]
    draw(rows, real, PAGE.with_name("ddp_live_links.png"))
    draw(rows, ["emulated_one_rank", "emulated_more", "emulated_contended"],
         PAGE.with_name("ddp_live_emulated.png"))
    draw(rows, ["veth_tbf_1g_variants"], PAGE.with_name("ddp_live_variants.png"))
    fill_markers(PAGE, {"links": link_table(rows), "curves": curve_table(rows), "fits": fit_table(rows),
                        "best": best_summary(rows)})


if __name__ == "__main__":
    main()
