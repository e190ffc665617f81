#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The inner loop: lint, fast unit tests and a part of the simulator. Usage: scripts/quick.sh BUILD
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh
options=()
for suite in long soak planted torture emu search one-thread sim-random nixl-tcp nixl-local \
	nixl-one_copy; do options+=(--no-suite "$suite"); done
exec meson test -C "$1" --no-rebuild --quiet --suite lint --suite unit --suite sim "${options[@]}"
