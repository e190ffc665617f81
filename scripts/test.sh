#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Finds a Python that can run the tests and hands over. Usage: scripts/test.sh short|full [SUITE]...
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh
exec python3 scripts/test.py "$@"
