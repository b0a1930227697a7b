#!/usr/bin/env bash
# Sets up all that the make targets need. Safe to run again: a stage that is up to date is skipped.
set -euo pipefail

readonly horovod_version=0.28.1

usage() {
  cat <<'USAGE'
usage: scripts/setup.sh [--dev] [--deps-only]
  --dev        also what tests and lint need
  --deps-only  everything but the package itself
environment:
  PYTHON       the Python to use (3.9, 3.10 or 3.11); by default the first one found
  VENV         the virtual environment; by default .venv in the repository
USAGE
}

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

dev=false
deps_only=false
for argument in "$@"; do
  case $argument in
    --dev) dev=true ;;
    --deps-only) deps_only=true ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && fail "unknown argument $argument" ;;
  esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$(realpath -m "${VENV:-.venv}")
stamps=$venv/.setup
logs=$PWD/build/logs
mkdir -p "$logs"

# logged NAME COMMAND...: runs the command with its output in a log file, whose end is shown if it fails.
logged() {
  local name=$1 begin=$SECONDS log="$logs/$1.log"
  shift
  printf 'setup: %s … (log: build/logs/%s.log)\n' "$name" "$name"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    fail "$name failed after $((SECONDS - begin)) s; the whole log is $log"
  fi
  printf 'setup: %s done in %d s\n' "$name" "$((SECONDS - begin))"
}

# stage NAME KEY COMMAND...: runs the command unless it last succeeded with the same key.
stage() {
  local name=$1 key=$2 stamp="$stamps/$1"
  shift 2
  if [[ -f $stamp && $(<"$stamp") == "$key" ]]; then
    printf 'setup: %s is up to date\n' "$name"
    return
  fi
  rm -f "$stamp"
  logged "$name" "$@"
  mkdir -p "$stamps"
  printf '%s\n' "$key" >"$stamp"
}

# hash_of PATH...: one hash over the contents of these files and folders.
hash_of() {
  find "$@" -type f -not -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# ---- Distribution packages

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "$@" && return
  echo 'The package lists may be missing or old: updating them.'
  apt-get update && apt-get install -y --no-install-recommends "$@"
}

install_packages() {
  local lists=(packages.txt) wanted missing=() package
  if "$dev"; then lists+=(packages-dev.txt); fi
  mapfile -t wanted < <(sed -e 's/[[:space:]]*#.*//' -e '/^$/d' "${lists[@]}")
  if ! command -v dpkg-query >/dev/null; then
    printf 'setup: not a Debian or Ubuntu system; it must have the equivalents of: %s\n' "${wanted[*]}"
    return
  fi
  for package in "${wanted[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo 'setup: packages is up to date'
  elif ((EUID == 0)); then
    logged packages apt_install "${missing[@]}"
  else
    fail "packages are missing. Install them, then run this again:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi
}

# ---- Python

# Succeeds if $1 is a Python 3.9 to 3.11 that can make virtual environments and has its C headers.
is_suitable() {
  "$1" - 2>/dev/null <<'PYTHON'
import ensurepip, os, sys, sysconfig, venv
headers = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not ((3, 9) <= sys.version_info[:2] <= (3, 11) and os.path.exists(headers)))
PYTHON
}

find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.10 python3.9 python3; do
    if is_suitable "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
    if [[ $candidate == "${PYTHON:-}" ]]; then
      fail "PYTHON=$PYTHON is not a Python 3.9, 3.10 or 3.11 with its venv module and C headers"
    fi
  done
  fail "no Python 3.9, 3.10 or 3.11 with its venv module and C headers was found; TensorFlow 2.15 has no
  package for others. Install one, with its -dev and -venv packages (or with pyenv), and run this again with
  PYTHON=/path/to/python3.11"
}

python_version() {
  "$1" -c 'import platform; print(platform.python_version())'
}

# ---- Python packages

pip_install() {
  python -m pip install "$@"
}

# The wheel is cached by what it was built for: a new environment takes it from there.
install_horovod() {
  HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
    HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 MAKEFLAGS="-j$(nproc)" \
    pip_install --no-build-isolation --no-deps --force-reinstall --no-binary horovod \
    --cache-dir "${XDG_CACHE_HOME:-$HOME/.cache}/hvd_omniccl/$1" "horovod==$horovod_version" &&
    python -c 'import horovod.tensorflow as hvd; assert hvd.gloo_built() and hvd.mpi_built()'
}

install_package() {
  rm -rf build/lib.* build/bdist.* # setuptools would keep modules there that are gone from the sources
  pip_install --no-build-isolation --no-deps --force-reinstall .
}

# ---- The stages

install_packages

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
if ! flock --nonblock 9; then
  echo 'setup: waiting for another set-up of the same environment'
  flock 9
fi

if is_suitable "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null; then
  version=$(python_version "$venv/bin/python")
  if [[ -n ${PYTHON:-} && $(python_version "$PYTHON") != "$version" ]]; then
    fail "$venv has Python $version, PYTHON=$PYTHON is another: remove the one or set VENV to a new folder"
  fi
  printf 'setup: venv is up to date (%s, Python %s)\n' "$venv" "$version"
else
  python=$(find_python)
  logged venv "$python" -m venv "$venv"
fi
export PATH="$venv/bin:$PATH" VIRTUAL_ENV="$venv"
unset PYTHONHOME

stage requirements "$(hash_of requirements.txt)" pip_install -r requirements.txt
if "$dev"; then
  stage requirements-dev "$(hash_of requirements.txt requirements-dev.txt)" \
    pip_install -r requirements.txt -r requirements-dev.txt
fi
horovod_key=$horovod_version-$(grep -o '^tensorflow[^ ]*' requirements.txt)-$(
  python -c 'import sys; print(sys.implementation.cache_tag)'
)
stage horovod "$horovod_key" install_horovod "$horovod_key"
if ! "$deps_only"; then
  stage hvd_omniccl "$horovod_key $(hash_of requirements.txt setup.py pyproject.toml hvd_omniccl native)" \
    install_package
fi
printf 'setup: ready in %d s\n' "$SECONDS"
