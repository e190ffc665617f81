#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The way of GPUDirect-TCPX without its hardware: checked READ and WRITE between two processes over
# the emulator of its plugin, four channels of messages, for host memory and for GPU memory of the
# stand-in for the CUDA driver. Ends with what the emulator counted: pages in use and violations.
# Usage: scripts/demo-tcpx.sh BUILD [OPTION of perf...]
set -eu
build=$(cd "$1" && pwd)
shift
tool=$build/tools/tcpx
test -x "$tool" || tool=$build/tcpx
# what is shown is one machine, whatever the caller's jobs are set to
unset CUDA_VISIBLE_DEVICES "${!NCCL_@}" "${!TCPXEMU_@}" "${!FAKECUDA_@}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TCPXEMU_STATS=$folder/%p TCPXEMU_STEER=off TCPXEMU_FRAG=rand

# show TRANSPORT OPTION...: WRITE and READ between two processes of this machine
show() {
	local transport=$1 op
	shift
	for op in write read; do
		"$tool" perf --loopback --transport "$transport" \
			--plugin "$build/emu/tcpxemu/libnccl-net-tcpxemu.so" --plugin-channels 4 \
			--op "$op" "$@"
		echo
	done
}

# count NAME: sums a figure over the processes
count() {
	awk -F "[:,]" -v name="  \"$1\"" '$1 == name { sum += $2 } END { print sum + 0 }' \
		"$folder"/*
}

sizes="--size 64K,1M,16M --working-set 64M --time 0.5"
# shellcheck disable=SC2086
NCCL_DYNAMIC_CHUNK_SIZE=524288 show plugin $sizes "$@"
# GPU memory: no NIC of this machine is a GPU's, and the peer is on this host
export TCPX_CUDA_LIBRARY=$build/emu/fakecuda/libfakecuda.so TCPXEMU_MEM=cuda-host-bounce
export TCPX_PAIRING=0 TCPX_GPUDIRECT_SAME_HOST=1
sizes="--size 64K,1M --working-set 8M --time 0.5"
# shellcheck disable=SC2086
show gpudirect --mem cuda:0 --remote-mem cuda:1 $sizes "$@"

messages=$(count received_messages)
pages=$(count pages_in_use)
violations=$(count violations)
echo "emulator: $messages messages, pages in use $pages, violations $violations"
test "$messages" -gt 0 && test "$pages" -eq 0 && test "$violations" -eq 0
