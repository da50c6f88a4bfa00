#!/usr/bin/env bash
# How far from measurements are the predictions? Builds stepsim, predicts every row of the tables of
# published measurements in tests/data/ and rewrites results/validation/ (points, tables, pictures)
# and the accuracy table of README.md:
#
#   tools/dev/validate.sh                build/release, building it first
#   tools/dev/validate.sh STEPSIM        with a program that is built already
#
# Takes a minute beside the build. Installs missing packages with apt, as tools/check does.
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

exports=$(mktemp -d)
trap 'rm -rf "$exports"' EXIT
validate() {  # NAME, then the words behind `stepsim validate`
  printf '== %s\n' "$1"
  "$stepsim" validate "${@:2}" --export "$exports/$1.csv"
}
validate collectives collectives tests/data/nccl_curves.csv
validate collectives_left_out collectives tests/data/nccl_curves.csv --leave-one-out system
validate collectives_two_point collectives tests/data/nccl_curves.csv --calibrate two-point
validate collectives_uncorrected collectives tests/data/nccl_curves.csv --corrections none
validate kernels kernels tests/data/gemm_points.csv
validate kernels_left_out kernels tests/data/gemm_points.csv --leave-one-out shape
validate memory memory tests/data/memory_published.csv
python3 -B tools/dev/plot_validation.py "$exports"
