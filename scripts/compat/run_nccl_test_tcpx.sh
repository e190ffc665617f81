#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The NCCL run that ours is compared with: nccl-tests over the hosts of a list, where they are
# installed; else bench/nccl_p2p between two GPUs of this host.
set -u
usage()
{
	cat <<END
usage: run_nccl_test_tcpx.sh [nccl [PROCS [GPUS [OP [PROCS_PER_NODE [COLLECT]]]]]] [--dry-run]
  PROCS 2 processes, GPUS 8 of each; OP 0 all-reduce, 1 all-to-all, else send/recv
  PROCS_PER_NODE 1; COLLECT 1: diagnostics/nccl_<ts>/ with SUMMARY.txt, by 'tcpx diag collect'
  --dry-run shows environment and command and runs nothing
Hosts: \$HOSTFILE, else scripts/node_ips/tcpx.txt, as of 'tcpx node --hostfile': an address a line,
slots=N or just N may follow it, '#' begins a comment. nccl-tests: on PATH, or in
\$NCCL_TESTS_HOME/build. ssh: PLM_RSH_AGENT or TCPX_SSH_CMD (ssh -p 2222). NCCL_* of yours win.
bench/nccl_p2p: \$NCCL_P2P, else this checkout's.
END
}
# shellcheck source=scripts/compat/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

dry=
words=()
for word; do
	case "$word" in
	--dry-run) dry=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	-*) wrong "'$word' is no option" ;;
	*) words+=("$word") ;;
	esac
done
[ ${#words[@]} -le 6 ] || wrong "too many words"
[ "${words[0]:-nccl}" = nccl ] || wrong "'${words[0]}': the reference is nccl"
procs=${words[1]:-2} gpus=${words[2]:-8} op=${words[3]:-0} per_node=${words[4]:-1}
collect=${words[5]:-0}
need_number PROCS "$procs"
need_number GPUS "$gpus"
need_number OP "$op"
need_number PROCS_PER_NODE "$per_node"
[ $((procs * gpus * per_node)) -gt 0 ] || wrong "PROCS, GPUS and PROCS_PER_NODE begin at 1"
case "$collect" in 0 | 1) ;; *) wrong "COLLECT is 0 or 1" ;; esac
case "$op" in
0) program=all_reduce_perf mode=all-reduce ;;
1) program=alltoall_perf mode=all-to-all ;;
*) program=sendrecv_perf mode=sendrecv ;;
esac

# The reference's environment, as it was recorded on A3 hosts.
recipe()
{
	local g=NCCL_GPUDIRECTTCPX
	cat <<END
NCCL_P2P_NET_CHUNKSIZE=524288
NCCL_P2P_PCI_CHUNKSIZE=524288
NCCL_P2P_NVL_CHUNKSIZE=1048576
NCCL_DYNAMIC_CHUNK_SIZE=524288
NCCL_BUFFSIZE=8388608
NCCL_ALGO=Ring
NCCL_PROTO=Simple
NCCL_MAX_NCHANNELS=8
NCCL_MIN_NCHANNELS=8
NCCL_CROSS_NIC=0
NCCL_NET_GDR_LEVEL=PIX
NCCL_P2P_PXN_LEVEL=0
NCCL_SOCKET_IFNAME=eth0
NCCL_NSOCKS_PERTHREAD=4
NCCL_SOCKET_NTHREADS=1
${g}_SOCKET_IFNAME=eth1,eth2,eth3,eth4
${g}_CTRL_DEV=eth0
${g}_UNIX_CLIENT_PREFIX=/run/tcpx
${g}_PROGRAM_FLOW_STEERING_WAIT_MICROS=50000
${g}_FORCE_ACK=0
${g}_TX_BINDINGS=eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177
${g}_RX_BINDINGS=eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191
END
}

# hosts_of FILE: sets hosts, "a:SLOTS,b:SLOTS".
hosts_of()
{
	local line count=0 slots
	hosts=
	while read -r line || [ -n "$line" ]; do
		line=${line%%#*}
		[[ $line =~ ^[[:space:]]*$ ]] && continue
		[[ $line =~ ^([^[:space:]]+)([[:space:]]+(slots=)?([0-9]{1,4}))?[[:space:]]*$ ]] ||
			die "$1: '$line' is not 'ADDRESS [slots=N]'" 2
		slots=$((10#${BASH_REMATCH[4]:-$per_node}))
		[[ $slots -ge 1 && $slots -le 1024 ]] || die "$1: '$line': slots are 1 to 1024" 2
		hosts+=${hosts:+,}${BASH_REMATCH[1]}:$slots
		count=$((count + slots))
	done <"$1"
	[ $count -ge "$procs" ] || die "$1 has room for $count processes, and $procs were asked" 2
}

find_program()
{
	local folder
	for folder in "${NCCL_TESTS_HOME:-/nowhere}/build" \
		"${UCCL_HOME:-/nowhere}/thirdparty/nccl-tests/build"; do
		if [ -x "$folder/$program" ]; then
			program=$folder/$program
			return 0
		fi
	done
	program=$(command -v "$program")
}

# set_recipe [NAME]: the environment, but for a name.
set_recipe()
{
	local name value
	while IFS='=' read -r name value; do
		[ "$name" != "${1:-}" ] || continue
		if [ -z "${!name:-}" ]; then export "$name=$value"; fi
		if [ -n "$dry" ]; then echo "export $name='${!name}'"; fi
	done < <(recipe)
}

if find_program; then
	list=$(setting "$top/scripts/node_ips/tcpx.txt" TCPX_HOSTFILE HOSTFILE)
	[ -r "$list" ] || die "no list of hosts: $list. Write one address a line, such as
10.0.0.1
10.0.0.2 slots=1   # of control, that ssh reaches
or name another file by HOSTFILE; $top/scripts/node_ips/tcpx.txt.example is one to copy" 2
	hosts_of "$list"
	set_recipe
	agent=$(setting "ssh -p 2222" PLM_RSH_AGENT TCPX_SSH_CMD)
	[ -n "$dry" ] || command -v mpirun >/dev/null ||
		die "no mpirun: install Open MPI, which starts $program on the hosts of $list"
	command=(mpirun --host "$hosts" -np "$procs" --mca plm_rsh_agent "$agent" --bind-to none)
	for name in "${!NCCL_@}" LD_LIBRARY_PATH; do
		if [ -n "${!name:-}" ]; then command+=(-x "$name"); fi
	done
	command+=("$program" -b 1K -e 1G -f 2 -w 50 -n 50 -g "$gpus")
else
	yardstick=${NCCL_P2P:-$top/build/bench/nccl_p2p}
	[ -x "$yardstick" ] || die "neither nccl-tests nor $yardstick: build one of them"
	echo "# no nccl-tests: two GPUs of this host over sockets, no measure of the plugin" >&2
	set_recipe NCCL_SOCKET_IFNAME # its way is loopback
	command=("$yardstick" --op "$mode")
fi
if [ "$collect" = 1 ]; then
	command=("$tool" diag collect --out diagnostics --name nccl -- "${command[@]}")
fi
if [ -n "$dry" ]; then
	printf '%q ' "${command[@]}"
	echo
	exit 0
fi
"${tether[@]}" "${command[@]}"
rc=$?
if [ $rc -eq 77 ]; then # what the yardstick tells a test runner
	echo "$me: no reference: this host has no NCCL, no CUDA driver or no second GPU" \
		"(see above); run it where there are two GPUs, or install nccl-tests" >&2
	rc=1
fi
[ "$collect" = 1 ] || exit $rc
# What is different from our newest run that was collected, at the end of the summary.
# shellcheck disable=SC2012
theirs=$(ls -dt diagnostics/nccl_*/ 2>/dev/null | head -n 1)
# shellcheck disable=SC2010
ours=$(ls -dt diagnostics/*/ 2>/dev/null | grep -v '^diagnostics/nccl_' | head -n 1)
if [ -n "$theirs" ]; then
	{
		echo
		if [ -n "$ours" ]; then
			echo "Compared with our run, $ours:"
			"$tool" diag compare "$ours" "$theirs"
		else
			echo "No run of ours to compare with:" \
				"tcpx diag collect --out diagnostics --name ours -- ..."
		fi
	} >>"$theirs/SUMMARY.txt"
fi
exit $rc
