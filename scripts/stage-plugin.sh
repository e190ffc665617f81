#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts Google's TCPX plugin where it can be loaded from: copies the folder that the host brings
# along (mounted noexec on some) and links libnccl-net-tcpx.so to its libnccl-net.so, then looks
# whether it is the TCPX plugin, whether libraries run from there, and whether what it needs is
# found.
# Usage: scripts/stage-plugin.sh [--from DIR] [--to DIR]
#        default: --from /var/lib/tcpx/lib64 --to /usr/local/tcpx/lib64
# Exit: 0 the plugin can be loaded; 1 it cannot, each reason with what to do; 2 wrong usage.
set -u

from=/var/lib/tcpx/lib64
to=/usr/local/tcpx/lib64
plugin=libnccl-net.so
link=libnccl-net-tcpx.so
# Where drivers and toolkits usually lie.
places="/usr/local/nvidia/lib64 /usr/local/cuda/lib64 /usr/local/cuda/compat
	/usr/lib/x86_64-linux-gnu /usr/lib64 /home/kubernetes/bin/nvidia/lib64"

usage()
{
	echo "usage: scripts/stage-plugin.sh [--from DIR] [--to DIR]" >&2
	exit 2
}

fail()
{
	echo "stage-plugin: $1" >&2
	echo "  $2" >&2
	bad=1
}

while [ $# -gt 0 ]; do
	case "$1" in
	--from | --to)
		if [ $# -lt 2 ] || [ -z "$2" ]; then usage; fi
		if [ "$1" = --from ]; then from=$2; else to=$2; fi
		shift 2
		;;
	*) usage ;;
	esac
done
bad=0

# Copies from's files, unless they lie there; makes the link. A new file, never the old one written
# over: a program may run it.
stage()
{
	mkdir -p "$to" || return 1
	if [ "$(realpath "$from")" != "$(realpath "$to")" ]; then
		cp -RL --remove-destination "$from"/. "$to"/ || return 1
	fi
	# A plugin that has the name already stays.
	if [ -L "$to/$link" ] || [ ! -e "$to/$link" ]; then
		ln -sfn "$plugin" "$to/$link" || return 1
	fi
}

# What the file is: its name lies in it, and the symbol that is looked up.
is_tcpx()
{
	grep -qa GPUDirectTCPX "$1" && grep -qa ncclNetPlugin_v "$1"
}

# Whether code may be mapped from files there.
runs_from()
{
	local probe rc
	probe=$(mktemp "$1/.stage-plugin.XXXXXX") || return 1
	printf '#!/bin/sh\nexit 0\n' >"$probe" && chmod +x "$probe" && "$probe" 2>/dev/null
	rc=$?
	rm -f "$probe"
	return $rc
}

tell_missing()
{
	local name=$1 place
	local more="\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
	for place in $places; do
		if [ -e "$place/$name" ]; then
			fail "$to/$link needs $name, which is not on the path" \
				"export LD_LIBRARY_PATH=$to:$place$more"
			return
		fi
	done
	case "$name" in
	libcuda.so*) more="install NVIDIA's driver" ;;
	*) more="install it" ;;
	esac
	fail "$to/$link needs $name, which is nowhere here" \
		"$more, or export LD_LIBRARY_PATH=$to:DIR with the folder it is in"
}

source_file=$from/$plugin
[ -e "$source_file" ] || source_file=$from/$link
if [ ! -f "$source_file" ]; then
	fail "there is no $plugin in $from" \
		"installers leave it in /var/lib/tcpx/lib64; name the folder by --from DIR"
	exit 1
fi
if ! is_tcpx "$source_file"; then
	fail "$source_file is another network plugin, not TCPX" \
		"name the folder of Google's plugin by --from DIR; nothing was copied"
	exit 1
fi
if ! stage; then
	fail "cannot write to $to" "run it as root, or name a folder of yours by --to DIR"
	exit 1
fi
if ! is_tcpx "$to/$link"; then
	fail "$to/$link was there before, and is not TCPX" "remove it and stage again"
fi
if ! runs_from "$to"; then
	mount=$(df --output=target "$to" | tail -n 1)
	fail "nothing can be run from $to: the file system is mounted noexec" \
		"name a folder elsewhere by --to DIR, or: mount -o remount,exec $mount"
fi
if [ $bad -eq 0 ]; then
	needs=$(LD_LIBRARY_PATH=$to${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ldd "$to/$link" 2>&1) ||
		fail "$to/$link cannot be loaded: $needs" "stage it on a host of its architecture"
	for name in $(printf '%s\n' "$needs" | sed -n 's/^[[:space:]]*\(.*\) => not found$/\1/p')
	do
		tell_missing "$name"
	done
fi
[ $bad -eq 0 ] || exit 1
echo "staged $to/$link ($(readlink -f "$to/$link"))"
echo "export TCPX_PLUGIN_PATH=$to/$link"
