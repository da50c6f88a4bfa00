#!/usr/bin/env bash
# Are our sources formatted as .clang-format says? Formats them, or only tells:
#
#   tools/dev/format.sh [--check]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -d '' -t files < <(git ls-files -z -- '*.cc' '*.h')
if [[ ${1:-} != --check ]]; then
  clang-format-14 -i "${files[@]}"
  exit 0
fi

unformatted=()
for file in "${files[@]}"; do
  if ! clang-format-14 --dry-run -Werror "$file" >/dev/null 2>&1; then
    unformatted+=("$file")
  fi
done
if [[ ${#unformatted[@]} -gt 0 ]]; then
  printf '%s\n' "${unformatted[@]}"
  printf '%d files are not formatted: run tools/dev/format.sh\n' "${#unformatted[@]}"
  exit 1
fi
