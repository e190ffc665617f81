#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, shown: checked READ and WRITE between two processes, over tcp and over local, with
# what plain sockets reach beside them. Usage: scripts/demo.sh TOOL
set -eu
sizes=64K,1M,16M,64M
"$1" perf --loopback --transport tcp,local --op read --size $sizes --ceiling
echo
"$1" perf --loopback --transport tcp,local --op write --size $sizes --ceiling
