#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The predecessor's commands on two A3 hosts that are played on this machine: one process for all
# GPUs, then a process for each GPU and the table of their logs.
# Usage: scripts/demo-compat.sh BUILD
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=scripts/emulated-a3.sh
. "$top/scripts/emulated-a3.sh"
folder=$(mktemp -d)
server=
trap 'rm -rf "$folder"; test -z "$server" || kill "$server" 2>/dev/null || true' EXIT
emulated_a3 "$top" "$build" "$folder"
unset LOG_DIR
export TCPX_TOOL=$build/tcpx TCPX_BIND=127.0.0.1
export UCCL_TCPX_UNPACK_IMPL=d2d UCCL_TCPX_PERF_SIZE=1MB UCCL_TCPX_PERF_ITERS=8

cd "$folder"

# pair SCRIPT: both ends; what the server's says is shown.
pair() {
	echo "\$ scripts/compat/$1 server        # and on the other host: $1 client IP"
	"$top/scripts/compat/$1" server &
	server=$!
	"$top/scripts/compat/$1" client 127.0.0.1 >"$folder/client.out" ||
		{ cat "$folder/client.out" >&2; exit 1; }
	wait "$server"
	server=
	echo
}
pair run_p2p_singleproc.sh
pair run_p2p_fullmesh.sh
echo "\$ scripts/compat/print_latest_bw.py"
"$top/scripts/compat/print_latest_bw.py"
