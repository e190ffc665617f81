#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All GPUs of two hosts, one process each: 'tcpx node' under its old name.
set -u
usage()
{
	cat <<END
usage: run_p2p_singleproc.sh server | client IP
8 GPUs with 8 channels each, GPU N with GPU N; 64 MB x 20, both directions at once.
Log: logs/singleproc_<role>_<ts>.log. GPU_LIST="0 1", UCCL_TCPX_NUM_CHANNELS, _PERF_SIZE,
_PERF_ITERS, _OOB_PORT, _BOOTSTRAP_PORT_BASE change it; scripts/compat/common.sh names the rest.
END
}
# shellcheck source=scripts/compat/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

CHANNELS=${UCCL_TCPX_NUM_CHANNELS:-8} # of a GPU; TCPX_CHANNELS beats it

parse_pair 0 "$@"
[ $# -eq $((1 + (${#host} > 0))) ] || wrong "too many words"
size=$(size_or 64M)
bytes_of size "$size"
gpus=${GPU_LIST:-0-7}
args=(--gpus "${gpus// /,}" --channels "$(channels_or "$CHANNELS")" --size "$size"
	--iters "$(iters_or 20)" --memory $((4 * bytes)))
# the old port was that of control, which is the one below the base
oob=$(oob_port)
if [ -n "$oob" ]; then
	need_number OOB_PORT "$oob"
	args+=(--port-base $((oob + 1)))
fi
log_begin "singleproc_${role}_$(stamp).log"
node_run "${args[@]}"
