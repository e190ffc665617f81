#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two A3 hosts without their hardware: 'tcpx node' drives 8 GPUs with 8 channels each over 4 NICs in
# one process a host, over the emulator of the TCPX plugin and the stand-in for the CUDA driver.
# Every byte is compared. Ends with what the emulator counted: pages in use and violations.
# Usage: scripts/demo-node.sh BUILD [OPTION of node...]
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
tool=$build/tools/tcpx
# shellcheck source=scripts/emulated-a3.sh
. "$top/scripts/emulated-a3.sh"
folder=$(mktemp -d)
server=
trap 'rm -rf "$folder"; test -z "$server" || kill "$server" 2>/dev/null || true' EXIT
emulated_a3 "$top" "$build" "$folder"

node() {
	"$tool" node --launcher none --gpus 0-7 --channels 8 --transport gpudirect \
		--size 1M --iters 8 --memory 4M "$@"
}
node "$@" &
server=$!
node "$@" --quiet 127.0.0.1
wait "$server"
server=

# count NAME: sums a figure over the processes
count() {
	awk -F "[:,]" -v name="  \"$1\"" '$1 == name { sum += $2 } END { print sum + 0 }' \
		"$folder"/stats/*
}
messages=$(count received_messages)
pages=$(count pages_in_use)
violations=$(count violations)
echo "emulator: $messages messages, pages in use $pages, violations $violations"
test "$messages" -gt 0 && test "$pages" -eq 0 && test "$violations" -eq 0
