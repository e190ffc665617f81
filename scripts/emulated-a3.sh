# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced: the environment of an A3 host that the emulator of the TCPX plugin and the stand-in for
# the CUDA driver play.

# emulated_a3 CHECKOUT BUILD FOLDER: the folder is empty, and the caller removes it.
emulated_a3()
{
	local top=$1 build=$2 folder=$3
	# what is shown is one machine, whatever the caller's jobs are set to
	unset CUDA_VISIBLE_DEVICES "${!NCCL_@}" "${!TCPXEMU_@}" "${!FAKECUDA_@}"
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
	export TCPX_PLUGIN=$build/emu/tcpxemu/libnccl-net-tcpxemu.so
}
