#!/usr/bin/env bash
# Where is the valley of the bucket size on each network? Runs configs/sweeps/ddp_bucket_7b_*.yaml and
# ..._70b_*.yaml and writes results/sweeps/: of each a CSV file, a picture and what the terminal shows,
# and the tables of its README.
#
#   tools/dev/sweep_curves.sh [STEPSIM]      default: build/release/bin/stepsim
#
# Equal predictions give equal bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stepsim=${1:-build/release/bin/stepsim}
results=results/sweeps
for sweep in configs/sweeps/ddp_bucket_{7b,70b}_*.yaml; do
  name=$results/$(basename "$sweep" .yaml)
  "$stepsim" sweep "$sweep" --shard 1/1 --export "$name.csv" --export "$name.svg" >"$name.txt"
  sed -i '/^wrote /d' "$name.txt"
done
tools/dev/sweep_table.py
