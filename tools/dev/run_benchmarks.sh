#!/usr/bin/env bash
# How fast is the engine today? Builds the benchmarks, runs them and rewrites the measured parts of
# results/benchmarks/ (engine.csv, contention.csv, cost.csv, sharded.csv, sweep.csv, parallel.csv,
# pipeline_orders.csv, trace.csv, read_trace.csv, processes.csv, environment.txt and the tables of its README):
#
#   tools/dev/run_benchmarks.sh
#
# Takes two to three minutes. Installs missing packages with apt, as tools/check does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source tools/dev/packages.sh
ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" libbenchmark-dev

build=build/benchmarks
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTEPSIM_PERF=ON \
  -DSTEPSIM_TOOLS=ON >/dev/null
ninja -C "$build" contention_perftest cost_perftest engine_perftest parallel_perftest pipeline_perftest read_trace_perftest sharded_perftest sweep_perftest step_process trace_perftest stepsim
"$build/bin/engine_perftest" --benchmark_repetitions=3 --benchmark_min_time=0.02 \
  --benchmark_format=json >"$build/engine.json"
"$build/bin/trace_perftest" --benchmark_repetitions=3 --benchmark_min_time=0.1 \
  --benchmark_format=json >"$build/trace.json"
"$build/bin/contention_perftest" --benchmark_min_time=1 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/contention.csv
"$build/bin/cost_perftest" --benchmark_min_time=0.2 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/cost.csv
"$build/bin/sharded_perftest" --benchmark_min_time=0.5 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/sharded.csv
"$build/bin/sweep_perftest" --benchmark_min_time=0.2 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/sweep.csv
"$build/bin/parallel_perftest" --benchmark_min_time=2 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/parallel.csv
"$build/bin/pipeline_perftest" --benchmark_min_time=0.2 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/pipeline_orders.csv
"$build/bin/read_trace_perftest" --benchmark_min_time=1 --benchmark_format=csv 2>/dev/null \
  >results/benchmarks/read_trace.csv
python3 tools/dev/record_benchmarks.py "$build"
