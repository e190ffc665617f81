#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process for each GPU, against the process of the same GPU of the other host.
set -u
usage()
{
	cat <<END
usage: run_p2p_fullmesh.sh server [GPU] | client IP [GPU]
8 pairs of the same number (not a full mesh: that is 'tcpx node --peers all'), each its own serve
and perf, from the client to the server; 64 MB x 20. Logs: logs/fullmesh_<role>_gpu<N>_<ts>.log;
print_latest_bw.py makes a table of them. GPU_LIST="0 1", UCCL_TCPX_NUM_CHANNELS, _PERF_SIZE,
_PERF_ITERS, _CHUNK_BYTES and _BOOTSTRAP_PORT_BASE (GPU N: base + N) change it.
END
}
# shellcheck source=scripts/compat/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

CHANNELS=${UCCL_TCPX_NUM_CHANNELS:-2} # TCPX_CHANNELS beats it (default 2)
channels=$(channels_or "$CHANNELS")

# The NIC that a GPU of an A3 host receives through.
map_gpu_to_ifaces()
{
	case "$1" in
	0 | 1) echo eth1 ;;
	2 | 3) echo eth2 ;;
	4 | 5) echo eth3 ;;
	6 | 7) echo eth4 ;;
	esac
}

case "${1:-}" in
server) one=${2:-} ;;
*) one=${3:-} ;;
esac
parse_pair 0 "$@"
base=$(first_port)
need_number port "$base"
chunk=$(chunk_or 512K)
export TCPX_PORT_RETRIES=0 # the next port is the next GPU's
time=$(stamp)
pids=()
read -ra gpus <<<"${one:-${GPU_LIST:-0 1 2 3 4 5 6 7}}"
for gpu in "${gpus[@]}"; do need_number GPU_LIST "$gpu"; done
trap 'kill "${pids[@]}" 2>/dev/null; wait; exit 130' INT TERM HUP

for gpu in "${gpus[@]}"; do
	nics=$(map_gpu_to_ifaces "$gpu")
	pair_argv $((base + gpu)) "$(size_or 64M)" "$(iters_or 20)" "$channels"
	log_begin "fullmesh_${role}_gpu${gpu}_$time.log"
	echo "GPU $gpu ${role}: ${nics:-no NIC of an A3 host}, $channels channels, $transport, $log"
	(
		trap - INT TERM HUP
		echo "# ${argv[*]}"
		if [ "$role" = client ]; then wait_for "$host" "$TCPX_OOB_PORT"; fi
		exec "${tether[@]}" "${argv[@]}"
	) >>"$log" 2>&1 &
	pids+=($!)
done

failed=0
for i in "${!pids[@]}"; do
	wait "${pids[i]}"
	rc=$?
	if [ $rc -ne 0 ]; then
		failed=1
		log=$LOG_DIR/fullmesh_${role}_gpu${gpus[i]}_$time.log
		why=$(grep -a '^tcpx [a-z]*: ' "$log" | tail -n 1)
		echo "$me: GPU ${gpus[i]}: exit $rc: ${why:-$(tail -n 1 "$log")}" >&2
	fi
done
echo "$((${#pids[@]})) processes ended, logs in $LOG_DIR"
exit $failed
