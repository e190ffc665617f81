#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, shown: checked READ and WRITE between two processes, over tcp and over local, with
# what plain sockets reach beside them; where there are GPUs, to and from their memory too.
# Usage: scripts/demo.sh TOOL
set -eu
sizes=64K,1M,16M,64M

# show OPTION...: READ and WRITE between two processes of this machine
show() {
	"$tool" perf --loopback --transport tcp,local --op read --size $sizes --ceiling "$@"
	echo
	"$tool" perf --loopback --transport tcp,local --op write --size $sizes --ceiling "$@"
}

tool=$1
show
gpus=$("$tool" info | grep -c '^  cuda:' || true)
if [ "$gpus" -ge 2 ]; then
	echo
	show --mem cuda:0 --remote-mem cuda:1
elif [ "$gpus" -eq 1 ]; then
	for ends in "host cuda:0" "cuda:0 host" "cuda:0 cuda:0"; do
		echo
		show --mem "${ends% *}" --remote-mem "${ends#* }"
	done
fi
echo
echo "Every byte was compared (#wrong). Next: README.md, for two hosts, NIXL and your own program;"
echo "'$tool doctor' checks this machine, '$tool perf --help' lists what can be measured."
