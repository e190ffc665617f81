#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One program, two runs: on the emulated A3 host GPU 0 receives through eth1, its own NIC, and then
# through eth2, which is not. The traces name the first call where the two runs diverge,
# and the cause. A third run, GPU 2 through eth2, its own NIC, does not diverge from the first.
# Usage: scripts/demo-trace.sh BUILD [FOLDER for the traces]
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
tool=$build/tools/tcpx
test -x "$tool" || tool=$build/tcpx
# what is shown is one machine, whatever the caller's jobs are set to
unset CUDA_VISIBLE_DEVICES "${!NCCL_@}" "${!TCPXEMU_@}" "${!FAKECUDA_@}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folder=${2:-$scratch}
mkdir -p "$scratch/sys" "$scratch/devmem" "$folder"
"$top/scripts/sysfs-unpack.py" "$top/tests/record/a3-high/sysfs.txt" "$scratch/sys"
export TCPX_SYSFS=$scratch/sys NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=$scratch/sys
export TCPX_CUDA_LIBRARY=$build/emu/fakecuda/libfakecuda.so
export FAKECUDA_DEVICES=8 FAKECUDA_PCI=04,05,0a,0b,84,85,8a,8b
export TCPXEMU_MEM=cuda-host-bounce TCPXEMU_STEER=strict TCPXEMU_POOL_BYTES=16777216
export TCPXEMU_DEVMEM_DIR=$scratch/devmem TCPX_DEVMEM_STATS=$scratch/devmem/%s
# the case: nothing keeps the GPU from a NIC that is not its own, and both ends are on this host
export TCPX_GPUDIRECT_SAME_HOST=1 TCPX_PAIRING=0

# traced NAME GPU NIC: the receiver's trace becomes FOLDER/NAME.tct
traced() {
	echo "\$ tcpx trace run -- tcpx perf --gpu $2 --nic $3"
	TCPX_PLUGIN=$build/emu/tcpxemu/libnccl-net-tcpxemu.so timeout 60 \
		"$tool" trace run --quiet -o "$scratch/$1" -- "$tool" perf --loopback \
		--transport gpudirect --gpu "$2" --nic "$3" --mem "cuda:$2" --remote-mem "cuda:$2" \
		--plugin-channels 1 --unpack d2d --op write --size 512K --iters 20 \
		--working-set 4M >"$scratch/$1.out" 2>&1 && echo "it works" ||
		echo "it fails: $(grep -h -m 1 "no-cmsg" "$scratch/$1.out" ||
			tail -n 1 "$scratch/$1.out")"
	# of the two ends, the one that received most
	local file best=0 count
	for file in "$scratch/$1"/*.tct; do
		count=$("$tool" trace show "$file" |
			awk '/^recv#/ { sum += $5 } END { print sum + 0 }')
		if [ "$count" -ge "$best" ]; then
			best=$count
			cp "$file" "$folder/$1.tct"
		fi
	done
}

traced gpu0-eth1 0 eth1
traced gpu0-eth2 0 eth2
traced gpu2-eth2 2 eth2
cd "$folder"
status=0
show() {
	echo
	echo "\$ tcpx trace $*"
	"$tool" trace "$@" || status=$?
}
show diff gpu0-eth1.tct gpu0-eth2.tct
test "$status" -eq 3 || exit 1
show lint gpu0-eth2.tct
test "$status" -eq 3 || exit 1
status=0
show diff gpu0-eth1.tct gpu2-eth2.tct
exit "$status"
