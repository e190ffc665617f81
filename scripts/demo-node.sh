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
# what is shown is one machine, whatever the caller's jobs are set to
unset CUDA_VISIBLE_DEVICES "${!NCCL_@}" "${!TCPXEMU_@}" "${!FAKECUDA_@}"
folder=$(mktemp -d)
server=
trap 'rm -rf "$folder"; test -z "$server" || kill "$server" 2>/dev/null || true' EXIT
mkdir "$folder/sys" "$folder/stats" "$folder/devmem"
"$top/scripts/sysfs-unpack.py" "$top/tests/record/a3-high/sysfs.txt" "$folder/sys"

export TCPX_SYSFS=$folder/sys NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=$folder/sys
export TCPX_CUDA_LIBRARY=$build/emu/fakecuda/libfakecuda.so
export FAKECUDA_DEVICES=8 FAKECUDA_PCI=04,05,0a,0b,84,85,8a,8b
export TCPXEMU_MEM=cuda-host-bounce TCPXEMU_STEER=strict TCPXEMU_FRAG=page
export TCPXEMU_STATS=$folder/stats/%p TCPXEMU_DEVMEM_DIR=$folder/devmem
export TCPX_DEVMEM_STATS=$folder/devmem/%s TCPX_GPUDIRECT_SAME_HOST=1
# the emulator's pages, and a window of the run
export TCPXEMU_POOL_BYTES=16777216

node() {
	"$tool" node --launcher none --gpus 0-7 --channels 8 --transport gpudirect --unpack d2d \
		--plugin "$build/emu/tcpxemu/libnccl-net-tcpxemu.so" \
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
