#!/usr/bin/env python3
"""What does the default bucket size cost on each network? Reads the CSV files of results/sweeps/ and
writes the table of its README.md. tools/dev/sweep_curves.sh calls it.
"""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fill_markers import fill_markers  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results" / "sweeps"
NETWORKS = {"nvlink": "NVLink", "infiniband": "InfiniBand, 8 x 400 Gb/s",
            "ethernet_100g": "Ethernet, 100 Gb/s", "ethernet_10g": "Ethernet, 10 Gb/s"}
# model: (axis, its values in a MiB, the framework's default)
MODELS = {"7b": ("plan.ddp.bucket_cap_mb", 1, 25),
          "70b": ("plan.megatron.ddp_bucket_size", 2**20 / 4, 40_000_000)}
TOLERANCE = 0.01  # of the plateau, as in the curves


def read_curve(model, network):
    axis, unit, _ = MODELS[model]
    with open(RESULTS / f"ddp_bucket_{model}_{network}.csv", encoding="utf-8", newline="") as file:
        return {float(row[axis]) / unit: float(row["step_time_s"]) for row in csv.DictReader(file)}


def seconds(value):
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.3f} s"


def plateau(curve, best):
    """The neighbours of `best` that are as good but for the tolerance, with the ends of the axis."""
    sizes = sorted(curve)
    first = last = sizes.index(best)
    limit = curve[best] * (1 + TOLERANCE)
    while first > 0 and curve[sizes[first - 1]] <= limit:
        first -= 1
    while last + 1 < len(sizes) and curve[sizes[last + 1]] <= limit:
        last += 1
    left = "any" if first == 0 else f"{sizes[first]:.0f}"
    right = "any" if last + 1 == len(sizes) else f"{sizes[last]:.0f}"
    return "any" if left == right == "any" else f"{left} to {right}"


def table(model):
    _, unit, default = MODELS[model]
    heads = ["network", "best, MiB", "step", "within 1 %, MiB", "at 25 MiB"]
    has_other_default = default / unit != 25
    if has_other_default:
        heads.append(f"at the default, {default / unit:.0f} MiB")
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for network, label in NETWORKS.items():
        curve = read_curve(model, network)
        best = min(curve, key=lambda size: (curve[size], size))

        def cost(size):
            return f"{seconds(curve[size])}, {curve[size] / curve[best] - 1:+.1%}"

        line = [label, f"{best:.0f}", seconds(curve[best]), plateau(curve, best), cost(25)]
        lines.append(line + [cost(default / unit)] if has_other_default else line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    fill_markers(RESULTS / "README.md", {model: table(model) for model in MODELS})


if __name__ == "__main__":
    main()
