"""Peak memory of published runs: reads what `stepsim validate memory --export` wrote and turns it into
Markdown tables. Used by plot_validation.py; only the standard library.
"""
import validation_tables as tables

SOURCES = {
    "simumax": "Megatron-LM on B200, allocated (SimuMax)",
    "torchtitan": "FSDP2 on H100 and H200, reserved (torchtitan)",
    "bigscience": "ZeRO-1 and pipeline on A100, nvidia-smi (BigScience)",
}
STATES = {"megatron_distributed": "distributed optimizer", "fsdp2": "FSDP2", "zero0": "ZeRO-0",
          "zero1": "ZeRO-1", "zero1_fp32_gradients": "ZeRO-1, fp32 gradients"}
RECOMPUTE = {"none": "nothing recomputed", "every_second_product": "selective, by operator",
             "layer_inputs": "full recompute"}
COLUMNS = ["row_id", "source", "model", "states", "recompute", "status", "measured_gib",
           "predicted_gib", "error_pct", "stage", "parameters_gib", "gradients_gib",
           "optimizer_states_gib", "unsharded_parameters_gib", "placeholders_gib",
           "activations_gib", "working_set_gib", "allocator_gib", "context_gib"]
WORST = 8


def read(folder):
    rows = tables.read_run(folder, "memory")
    for row in rows:
        row["is_scored"] = row["status"] == "ok"
    return rows


def scored(rows):
    return [r for r in rows if r["is_scored"]]


def distinct(rows):
    """Runs that a publication lists for several numbers of microbatches count once."""
    return list({(r["model"], r["measured_gib"], r["predicted_gib"]): r for r in reversed(rows)}
                .values())[::-1]


def error(row):
    return float(row["predicted_gib"]) / float(row["measured_gib"]) - 1


def summarize(rows):
    errors = [error(r) for r in rows]
    sizes = [abs(e) for e in errors]
    return tables.Summary(len(errors), tables.quantile(sizes, 0.5), tables.quantile(sizes, 0.9),
                          tables.quantile(errors, 0.5))


def selections(rows):
    yield "**all**", rows
    for column, names in (("source", SOURCES), ("states", STATES), ("recompute", RECOMPUTE)):
        for key, name in names.items():
            members = [r for r in rows if r[column] == key]
            if members:
                yield name, members


def memory_table(rows):
    lines = []
    for name, members in selections(scored(rows)):
        once = summarize(distinct(members))
        lines.append([name, len(members), *tables.three(summarize(members)), once.count,
                      *tables.three(once)])
    return tables.markdown(["", "rows", "median", "p90", "bias", "distinct runs", "median", "p90",
                            "bias"], lines)


def worst_table(rows):
    ranked = sorted(distinct(scored(rows)), key=lambda r: -abs(error(r)))
    lines = [[r["row_id"], r["model"], STATES[r["states"]], f"{float(r['measured_gib']):.1f} GiB",
              f"{float(r['predicted_gib']):.1f} GiB", tables.percent(error(r), "+")]
             for r in ranked[:WORST]]
    return tables.markdown(["row", "model", "", "published", "predicted", "error"], lines)


def aside_table(rows):
    lines = {}
    for row in rows:
        if not row["is_scored"]:
            lines.setdefault((row["source"], row["status"].removeprefix("not stated: ")),
                             []).append(row["row_id"])
    return tables.markdown(["source", "not stated", "rows"],
                           [[source, status.replace(" ", ", "), ", ".join(ids)]
                            for (source, status), ids in lines.items()])


def accuracy_lines(rows):
    """For the project's front page: nothing is fitted, so nothing was seen."""
    lines = []
    for key, name in SOURCES.items():
        members = distinct([r for r in scored(rows) if r["source"] == key])
        once = summarize(members)
        lines.append([f"peak memory, {name}", once.count, "", tables.percent(once.median),
                      tables.percent(once.p90)])
    return lines
