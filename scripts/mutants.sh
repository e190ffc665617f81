#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants each fault of tests/mutants/*.txt and shows that its test notices: scripts/mutants.py, with
# the meson of this tree. Usage: scripts/mutants.sh [NAME...]
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh
exec python3 scripts/mutants.py "$@"
