# Which Debian packages does stepsim need, and how are missing ones installed?
# Sourced by tools/quickstart and tools/check:
#
#   source tools/dev/packages.sh
#   ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
#
# Asks dpkg first and calls apt-get only when something is missing, so a second run costs nothing.

BUILD_PACKAGES=(
  g++ cmake ninja-build ccache
  libboost-graph-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  libfmt-dev libfast-float-dev zlib1g-dev libsqlite3-dev libeigen3-dev libtbb-dev libtomlplusplus-dev
  libprotobuf-dev protobuf-compiler
)
TEST_PACKAGES=(
  python3 python3-jsonschema python3-yaml libgtest-dev libgmock-dev
  libopenmpi-dev openmpi-bin  # stepsim-calibrate on CPUs: 12 MB to fetch, 15 s to install
)
EVIDENCE_PACKAGES=(python3 python3-matplotlib)  # tools/dev/validate.sh
# slurm-wlm and munge, for tests/slurm, are not here: as services they would stay on the machine.

# Runs a command quietly; shows what it said only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [[ $status -ne 0 ]]; then
    cat "$log" >&2
    printf 'error: failed: %s\n' "$*" >&2
  fi
  rm -f "$log"
  return "$status"
}

# Prints those of the given packages that dpkg does not report as installed.
missing_packages() {
  local package
  for package in "$@"; do
    if ! dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null |
      grep --quiet --line-regexp installed; then
      printf '%s\n' "$package"
    fi
  done
}

# Prints the command prefix that makes apt-get run as root; fails when there is none.
root_prefix() {
  if [[ $(id -u) -eq 0 ]]; then
    printf 'env'
  elif command -v sudo >/dev/null 2>&1; then
    printf 'sudo env'
  else
    return 1
  fi
}

ensure_packages() {
  local -a missing as_root
  local prefix
  if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    printf 'error: this system has no apt, so packages cannot be installed for you.\n' >&2
    printf 'Install what these Debian packages hold, then run again with --no-install:\n  %s\n' "$*" >&2
    return 1
  fi
  mapfile -t missing < <(missing_packages "$@")
  if [[ ${#missing[@]} -eq 0 ]]; then
    return 0
  fi
  printf 'Installing with apt: %s\n' "${missing[*]}"
  if ! prefix=$(root_prefix); then
    printf 'error: installing needs root, and sudo is not here. As root, run:\n' >&2
    printf '  apt-get update && apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
    return 1
  fi
  read -r -a as_root <<<"$prefix"
  # Stop on the first failure even where the caller tests this function, which switches `set -e` off.
  quietly "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get update || return 1
  quietly "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install --yes \
    --no-install-recommends "${missing[@]}" </dev/null || return 1
}
