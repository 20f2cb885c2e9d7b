#!/usr/bin/env bash
# Everything that needs a GPU, in one run of a few minutes: no network, nothing but torch and the
# installed package. Writes gpu-check/check.json and the traces beside it; says what it could not run.
set -euo pipefail
exec "${PYTHON:-python3}" "$(dirname "$0")/gpu_check.py" "$@"
