"""Do the schemas of `stepsim schema` say what the program reads?

  check_schemas.py STEPSIM CONFIGS

Every shipped file must be valid; the jobs below must be judged alike by schema and program. Ends
with 77, which CTest counts as skipped, where jsonschema or yaml is missing.
"""
import json
import os
import pathlib
import subprocess
import sys

SKIPPED = 77
DEBIAN_PYTHON = "/usr/bin/python3"

try:
    import jsonschema
    import yaml
except ImportError as error:
    # Another Python in the path does not see the packages of the system.
    if os.path.exists(DEBIAN_PYTHON) and sys.executable != DEBIAN_PYTHON:
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, "-B", *sys.argv])
    print(f"skipped: {error}; install python3-jsonschema and python3-yaml")
    sys.exit(SKIPPED)

FOLDERS = {"job": "jobs", "hardware": "hardware", "network": "networks", "model": "models",
           "collectives": "collectives"}

TOP = "model: gpt2\nhardware: ideal\nbatch: {sequence_length: 1024}\n"
DDP = TOP + "plan: {strategy: ddp, ddp: %s}\n"
OVERHEAD = TOP + "simulate: {launch_overhead: %s}\n"
HARDWARE = "model: gpt2\nbatch: {sequence_length: 1024}\nhardware: %s\n"
MODEL = "hardware: ideal\nbatch: {sequence_length: 16}\nmodel: %s\n"
TRANSFORMER = "{name: x, transformer: {layers: 2, hidden_size: 8, heads: 2, ffn_size: 8, %s}}"
LAYERS = ("hardware: ideal\nmodel:\n  name: x\n  layers:\n"
          "    - {name: a, parameters: [{name: a.weight, elements: 5}], forward_flops: %s}\n")

GOOD_JOBS = [
    TOP,
    DDP % "{bucket_cap_mb: 25.5, static_graph: true}",
    DDP % "{bucket_cap_mb_list: [1, 25]}",
    OVERHEAD % "5us",
    OVERHEAD % "1_000.5e-3 ns",
    OVERHEAD % ".5 us",
    TOP.replace("sequence_length", "seq_len"),
    TOP + "nodes: 2\nnetwork: {link: {bandwidth: 25 Gb/s}}\n",
    HARDWARE % "{base: ideal, gpus_per_node: 2, intra_node: {bandwidth: 100 GB/s}}",
    MODEL % (TRANSFORMER % "vocab_size: 100"),
    MODEL % "{base: gpt2, transformer: {layers: 6}, reference_parameters: 0}",
    LAYERS % "1 TFLOP",
    MODEL % "{model_type: gpt2, n_layer: 2, n_embd: 8, n_head: 2, vocab_size: 99, n_positions: 16}",
]
BAD_JOBS = [
    "model: gpt2\n",
    TOP + "nodse: 2\n",
    TOP + "nodes: 0\n",
    TOP + "nodes: two\n",
    TOP + "optimizer: adam\n",
    DDP % "{bucket_cap: 25}",
    DDP % "{bucket_cap_mb: -1}",
    DDP % "{bucket_cap_mb_list: [1, a]}",
    DDP % "{static_graph: 'sometimes'}",
    OVERHEAD % "5",
    OVERHEAD % "5 GB",
    OVERHEAD % "-5 us",
    OVERHEAD % "1.2.3 us",
    OVERHEAD % "1__0 us",
    HARDWARE % "[ideal]",
    HARDWARE % "{gpus_per_node: 2}",
    HARDWARE % "{base: ideal, gpus_per_nod: 2}",
    HARDWARE % "{base: ideal, intra_node: {bandwidth: 100 us}}",
    HARDWARE % "{base: ideal, gpu: {gemm_efficiency: 80}}",
    MODEL % "{name: x}",
    MODEL % (TRANSFORMER % "vocab_siz: 100"),
    MODEL % (TRANSFORMER % "heads: 2"),
    LAYERS % "1 GB",
]
BAD_FILES = [
    ("hardware", "{name: mine, gpus_per_node: 4}"),
    ("hardware", "{base: ideal, gpus: 4}"),
    ("network", "{name: n, link: {type: ib, bandwidth: 400 GiB}}"),
    ("network", "{name: n}"),
    ("model", "{name: x, transformer: {layers: 2}}"),
    ("collectives", "{rows: []}"),
    ("collectives", "{name: mine, rows: [{algorithm: ring, ramp: 10}]}"),
    ("collectives", "{name: mine, rows: [{algorithm: ring, time_factor: 0}]}"),
]
GOOD_FILES = [
    ("hardware", "{base: ideal, name: mine, gpus_per_node: 4}"),
    ("network", "{base: ethernet-25g, nics_per_node: 2}"),
    ("model", "{base: gpt2, name: half, transformer: {layers: 6}}"),
    ("collectives", "{name: mine, rows: [{algorithm: ring, ramp: 10 us}], sources: {rows: x}}"),
]


def problems_of(validator, text):
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message[:200]}"
            for e in validator.iter_errors(yaml.safe_load(text))]


def load_validators(stepsim):
    validators = {}
    for kind in FOLDERS:
        text = subprocess.run([stepsim, "schema", kind], check=True, capture_output=True).stdout
        schema = json.loads(text)
        jsonschema.Draft7Validator.check_schema(schema)
        validators[kind] = jsonschema.Draft7Validator(schema)
    return validators


def check_shipped(validators, configs):
    failures, count = [], 0
    for kind, folder in FOLDERS.items():
        for path in sorted((configs / folder).glob("*.yaml")):
            count += 1
            failures += [f"{path}: {p}" for p in problems_of(validators[kind], path.read_text())]
    if count == 0:
        failures.append(f"no file in {configs}")
    return failures


def check_jobs(validator, stepsim, configs, jobs, wanted):
    failures = []
    for job in jobs:
        ran = subprocess.run([stepsim, "--configs", str(configs), "run", "-", "--quiet"], input=job,
                             capture_output=True, text=True, check=False)
        verdicts = {"schema": not problems_of(validator, job), "program": ran.returncode == 0}
        failures += [f"the {who} should say {wanted} of:\n{job}{ran.stderr}"
                     for who, verdict in verdicts.items() if verdict != wanted]
    return failures


def check_files(validators, files, wanted):
    return [f"the {kind} schema should say {wanted} of {text}" for kind, text in files
            if (not problems_of(validators[kind], text)) != wanted]


def main():
    stepsim, configs = sys.argv[1], pathlib.Path(sys.argv[2])
    validators = load_validators(stepsim)
    failures = check_shipped(validators, configs)
    failures += check_jobs(validators["job"], stepsim, configs, GOOD_JOBS, True)
    failures += check_jobs(validators["job"], stepsim, configs, BAD_JOBS, False)
    failures += check_files(validators, GOOD_FILES, True) + check_files(validators, BAD_FILES, False)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
