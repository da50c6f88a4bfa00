#!/usr/bin/env python3
"""Which sharding wins, what does prefetch buy, what does accumulation save? Runs stepsim over the
strategies of one job and writes results/sharding/: CSV files, two pictures, the tables of README.md.

    tools/dev/compare_sharding.py [STEPSIM]      default: build/release/bin/stepsim

Equal predictions give equal bytes.
"""
import csv
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fill_markers import fill_markers  # noqa: E402
from plotting import DPI, MARKERS, PALETTE, plt, style  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "sharding"
JOB = "llama-3-8b_fsdp2_16xh100"

NETWORKS = {"8 x 400 Gb/s InfiniBand": None, "100 Gb/s RoCE": "roce-100g",
            "25 Gb/s Ethernet": "ethernet-25g"}


def plan(strategy, **knobs):
    text = ", ".join(f"{key}: {value}" for key, value in knobs.items())
    return f"{{strategy: {strategy}, {strategy}: {{{text}}}}}" if knobs else f"{{strategy: {strategy}}}"


STRATEGIES = {
    "DDP": plan("ddp", gradient_as_bucket_view="true"),
    "ZeRO-1": plan("zero", stage=1),
    "ZeRO-2, overlap_comm": plan("zero", stage=2, overlap_comm="true"),
    "ZeRO-3": plan("zero", stage=3),
    "Megatron, distributed optimizer, overlapped": plan(
        "megatron", use_distributed_optimizer="true", overlap_grad_reduce="true",
        overlap_param_gather="true"),
    "FSDP1 FULL_SHARD": plan("fsdp1", reduce_dtype="fp32"),
    "FSDP1 SHARD_GRAD_OP": plan("fsdp1", reduce_dtype="fp32", sharding_strategy="SHARD_GRAD_OP"),
    "FSDP1 HYBRID_SHARD": plan("fsdp1", reduce_dtype="fp32", sharding_strategy="HYBRID_SHARD"),
    "FSDP2": plan("fsdp2", reduce_dtype="fp32"),
    "FSDP2, reshard_after_forward: false": plan("fsdp2", reduce_dtype="fp32",
                                                reshard_after_forward="false"),
    "FSDP2, HSDP over 2 nodes": plan("fsdp2", reduce_dtype="fp32", shard_size=8),
}
GPU_GIB = 80
DEPTHS = [0, 1, 2, 4, 8]
MICROSTEPS = [1, 2, 4, 8, 16]
FLAVOURS = {
    "reduce each micro-step": {},
    "requires_gradient_sync: false": {"requires_gradient_sync": "false"},
    "... and parameters kept": {"requires_gradient_sync": "false", "reshard_after_forward": "false",
                                "reshard_after_backward": "false"},
}


def run(stepsim, sets):
    command = [stepsim, "run", JOB, "--quiet", "--export", "-"]
    for setting in sets:
        command += ["--set", setting]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def numbers(result):
    memory = result["peak_memory_bytes"]["total"] / 2**30
    return {"step_ms": f"{result['step_time_s'] * 1e3:.1f}",
            "exposed_ms": f"{result['exposed_s']['total'] * 1e3:.1f}",
            "mfu_percent": f"{result['mfu']['palm'] * 100:.1f}", "memory_gib": f"{memory:.1f}"}


def compare_strategies(stepsim):
    rows = []
    for network, name in NETWORKS.items():
        for strategy, settings in STRATEGIES.items():
            sets = ["plan=" + settings] + ([f"network={name}"] if name else [])
            rows.append({"network": network, "strategy": strategy, **numbers(run(stepsim, sets))})
    return rows


def sweep_prefetch(stepsim):
    rows = []
    for network, name in NETWORKS.items():
        for depth in DEPTHS:
            sets = [f"plan.fsdp2.backward_prefetch={depth}"] + ([f"network={name}"] if name else [])
            rows.append({"network": network, "backward_prefetch": depth,
                         **numbers(run(stepsim, sets))})
    return rows


def sweep_accumulation(stepsim):
    rows = []
    for flavour, knobs in FLAVOURS.items():
        for microsteps in MICROSTEPS:
            sets = [f"batch.gradient_accumulation_steps={microsteps}", "network=roce-100g"]
            if microsteps > 1:
                sets += [f"plan.fsdp2.{key}={value}" for key, value in knobs.items()]
            result = run(stepsim, sets)
            rows.append({"flavour": flavour, "microsteps": microsteps, **numbers(result),
                         "tokens_per_s_per_gpu": f"{result['tokens_per_s_per_gpu']:.0f}"})
    return rows


def write_csv(name, rows):
    with open(RESULTS / name, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(rows, columns):
    lines = ["| " + " | ".join(columns.values()) + " |",
             "| " + " | ".join("---" if i == 0 else "---:" for i in range(len(columns))) + " |"]
    lines += ["| " + " | ".join(str(row[c]) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def side_by_side(rows):
    """One line for each strategy: step time on every network, then memory."""
    first = [r for r in rows if r["network"] == next(iter(NETWORKS))]
    lines = []
    for row in first:
        line = {"strategy": row["strategy"], "memory_gib": row["memory_gib"]}
        for network in NETWORKS:
            line[network] = next(r["step_ms"] for r in rows if r["network"] == network
                                 and r["strategy"] == row["strategy"])
        lines.append(line)
    columns = {"strategy": "strategy", **{n: f"step, ms: {n}" for n in NETWORKS},
               "memory_gib": "memory, GiB"}
    return table(lines, columns)


def plot_strategies(rows):
    figure, panels = plt.subplots(1, len(NETWORKS), figsize=(15, 5), sharey=True)
    for panel, network in zip(panels, NETWORKS):
        mine = [r for r in rows if r["network"] == network][::-1]
        steps = [float(r["step_ms"]) / 1e3 for r in mine]
        exposed = [float(r["exposed_ms"]) / 1e3 for r in mine]
        lines = range(len(mine))
        panel.barh(lines, [s - e for s, e in zip(steps, exposed)], color=PALETTE[0],
                   label="compute and the rest")
        panel.barh(lines, exposed, left=[s - e for s, e in zip(steps, exposed)], color=PALETTE[1],
                   label="exposed communication")
        for line, row, step in zip(lines, mine, steps):
            fits = float(row["memory_gib"]) <= GPU_GIB
            panel.text(step, line, f" {float(row['memory_gib']):.0f} GiB" + ("" if fits else ", too much"),
                       va="center", fontsize=8, color="#333333" if fits else "#D55E00")
        panel.set_yticks(lines, [r["strategy"] for r in mine])
        panel.set_title(network)
        panel.set_xlabel("step, s")
        panel.set_xlim(0, max(steps) * 1.45)
        panel.grid(axis="y", visible=False)
    panels[0].legend(loc="lower left", bbox_to_anchor=(-0.05, -0.3), ncol=2, frameon=False)
    figure.tight_layout()
    figure.savefig(RESULTS / "strategies.png", dpi=DPI, metadata={"Software": None})
    plt.close(figure)


def plot_prefetch(rows):
    figure, (exposure, memory) = plt.subplots(1, 2, figsize=(11, 4.4))
    for i, network in enumerate(NETWORKS):
        mine = [r for r in rows if r["network"] == network]
        depths = range(len(mine))
        for panel, key in ((exposure, "exposed_ms"), (memory, "memory_gib")):
            panel.plot(depths, [float(r[key]) for r in mine], marker=MARKERS[i], color=PALETTE[i],
                       label=network)
    for panel, label in ((exposure, "exposed, ms"), (memory, "peak memory, GiB")):
        panel.set_xticks(range(len(DEPTHS)), DEPTHS)
        panel.set_xlabel("backward_prefetch, groups")
        panel.set_ylabel(label)
    exposure.set_yscale("log")
    memory.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "prefetch.png", dpi=DPI, metadata={"Software": None})
    plt.close(figure)


def main():
    stepsim = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                               ROOT / "build/release/bin/stepsim").resolve())
    RESULTS.mkdir(parents=True, exist_ok=True)
    strategies, prefetch = compare_strategies(stepsim), sweep_prefetch(stepsim)
    accumulation = sweep_accumulation(stepsim)
    write_csv("strategies.csv", strategies)
    write_csv("prefetch.csv", prefetch)
    write_csv("accumulation.csv", accumulation)
    style()
    plot_strategies(strategies)
    plot_prefetch(prefetch)
    fill_markers(RESULTS / "README.md", {
        "strategies": side_by_side(strategies),
        "prefetch": table(prefetch, {
            "network": "network", "backward_prefetch": "depth", "step_ms": "step, ms",
            "exposed_ms": "exposed, ms", "memory_gib": "memory, GiB"}),
        "accumulation": table(accumulation, {
            "flavour": "flavour", "microsteps": "micro-steps", "step_ms": "step, ms",
            "exposed_ms": "exposed, ms", "tokens_per_s_per_gpu": "tokens/s/GPU",
            "memory_gib": "memory, GiB"})})


if __name__ == "__main__":
    main()
