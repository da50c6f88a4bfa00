#!/usr/bin/env bash
# How far from real DDP steps are the predictions? Builds stepsim, predicts every point of the live bucket sweeps of
# tests/data/ddp_live/ from their micro-measurements and rewrites results/validation/ddp_live.* (points, tables,
# pictures):
#
#   tools/dev/ddp_live.sh                build/release, building it first
#   tools/dev/ddp_live.sh STEPSIM        with a program that is built already
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source tools/dev/packages.sh
stepsim=${1:-}
if [[ -z $stepsim ]]; then
  ensure_packages "${BUILD_PACKAGES[@]}" "${EVIDENCE_PACKAGES[@]}"
  cmake --preset release >/dev/null
  cmake --build --preset release --target stepsim
  stepsim=build/release/bin/stepsim
else
  ensure_packages "${EVIDENCE_PACKAGES[@]}"
fi

data=tests/data/ddp_live
"$stepsim" validate ddp $data/steps.csv $data/gradients.csv $data/links.csv $data/overlaps.csv $data/slow_downs.csv \
  --export results/validation/ddp_live.csv
python3 -B tools/dev/plot_ddp_live.py
