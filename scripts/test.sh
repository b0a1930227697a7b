#!/usr/bin/env bash
# Runs the test stages, cheapest first, and stops at the first that fails. Needs `scripts/setup.sh --dev`.
set -euo pipefail

readonly all_stages=(lint native arm asan tsan python parallel)

usage() {
  printf 'usage: scripts/test.sh [STAGE...]\nstages, by default all in this order: %s\n' "${all_stages[*]}"
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$(realpath -m "${VENV:-.venv}")
export PATH="$venv/bin:$PATH"

# native_tests FOLDER LAUNCHER CMAKE_OPTION...: configures, builds and runs the native tests.
native_tests() {
  local folder=build/$1 launcher=$2
  shift 2
  cmake -S native -B "$folder" -G Ninja -DOMNICCL_BUILD_TESTS=ON "$@"
  cmake --build "$folder"
  # shellcheck disable=SC2086 # the launcher is a command with its arguments, or nothing
  $launcher ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 300 -j "$(nproc)"
}

stage_lint() {
  ruff check .
  ruff format --check .
  mypy --strict hvd_omniccl
  codespell -L bu docs examples hvd_omniccl native scripts tests ./*.md
  shellcheck scripts/*.sh .ci/run
  find native tests \( -name '*.h' -o -name '*.cpp' -o -name '*.inl' \) -print0 |
    xargs -0 clang-format --dry-run -Werror
}

stage_native() {
  native_tests native '' -DCMAKE_BUILD_TYPE=Release
  run-clang-tidy -quiet -p build/native -j "$(nproc)" "$PWD/native/"
}

# The layers that differ between processors, for 64-bit Arm.
stage_arm() {
  native_tests arm '' -DCMAKE_BUILD_TYPE=Release -DOMNICCL_ENCODER_ONLY=ON \
    -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake
}

# Lines in reports, and half the time to compile.
readonly sanitizer_options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1')

stage_asan() {
  native_tests asan '' "${sanitizer_options[@]}" -DOMNICCL_SANITIZE=address,undefined
}

stage_tsan() {
  # The sanitizer of older compilers cannot place its memory where the kernel randomises addresses strongly.
  local launcher=''
  if setarch -R true; then launcher='setarch -R'; fi
  native_tests tsan "$launcher" "${sanitizer_options[@]}" -DOMNICCL_SANITIZE=thread
}

stage_python() {
  pytest tests/python
}

stage_parallel() {
  pytest tests/parallel
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  usage
  exit
fi
if (($# == 0)); then set -- "${all_stages[@]}"; fi
for stage in "$@"; do
  if ! declare -F "stage_$stage" >/dev/null; then
    printf 'test: unknown stage %s\n' "$stage" >&2
    usage >&2
    exit 2
  fi
done

on_exit() {
  local status=$?
  if ((status != 0)); then
    printf '\ntest: FAILED in stage %s after %d s\n' "$stage" "$((SECONDS - begin))" >&2
  fi
}
trap on_exit EXIT

times=''
for stage in "$@"; do
  printf '\ntest: ---- %s\n' "$stage"
  begin=$SECONDS
  "stage_$stage"
  printf 'test: %s passed in %d s\n' "$stage" "$((SECONDS - begin))"
  times+=", $stage $((SECONDS - begin)) s"
done
printf '\ntest: all stages passed in %d s: %s\n' "$SECONDS" "${times#, }"
