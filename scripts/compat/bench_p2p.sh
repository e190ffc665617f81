#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One GPU against one of another host, with the old options; 'tcpx serve' and 'tcpx perf'.
set -u
usage()
{
	cat <<END
usage: bench_p2p.sh server GPU [option...] | client IP GPU [option...]
  --ifaces=LIST     NICs for data (gpudirect: default the GPU's own; another one is relayed)
  --ctrl=DEV        interface of control (default eth0, or TCPX_BIND)
  --size=BYTES      of a transfer (64MB)          --iters=N      transfers (20)
  --chunk=BYTES     of a message (512K)           --nsocks=N     sockets of a thread (4)
  --nthreads=N      socket threads (1)            --impl=HOW     kernel, d2d
  --unix-prefix=DIR RxDM's sockets (/run/tcpx)    --no-unix      that default again
  --host-recv       receive into host memory      --skip-warmup=N  not in [STEADY-STATE] (1)
Both ends want the same options. Logs: logs/bench_<role>_<ts>.log, logs/infomation.log.
END
}
# shellcheck source=scripts/compat/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

CHANNELS=${UCCL_TCPX_NUM_CHANNELS:-1} # TCPX_CHANNELS beats it

words=2
if [ "${1:-}" = client ]; then words=3; fi
parse_pair "" "${@:1:words}"
shift $words
size=$(size_or 64M)
iters=$(iters_or 20)
nsocks=4 nthreads=1 skip=1 notes=
for option; do
	value=${option#*=}
	case "$option" in
	--ifaces=?*) nics=$value ;;
	--ctrl=?*) ctrl=$value ;;
	--size=*) size=$value ;;
	--iters=*) iters=$value ;;
	--chunk=*) bytes_of --chunk "$value" && chunk=$value ;;
	--nsocks=*) nsocks=$value ;;
	--nthreads=*) nthreads=$value ;;
	--unix-prefix=?*) export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=$value ;;
	--no-unix)
		unset NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX
		notes="# --no-unix: RxDM steers what comes into GPU memory: its default folder"
		;;
	--impl=kernel | --impl=d2d) unpack=$value ;;
	--host-recv) unpack="host-recv" ;;
	--skip-warmup=*) skip=$value ;;
	-h | --help)
		usage
		exit 0
		;;
	*) wrong "'$option' is no option, or has a value that is none" ;;
	esac
done
need_number --nsocks "$nsocks"
need_number --nthreads "$nthreads"
need_number --skip-warmup "$skip"
if [ "$transport" = gpudirect ]; then
	export NCCL_NSOCKS_PERTHREAD=$nsocks NCCL_SOCKET_NTHREADS=$nthreads
	if [ -n "$ctrl" ]; then export NCCL_GPUDIRECTTCPX_CTRL_DEV=$ctrl; fi
elif [ -n "$nics" ]; then
	ctrl=$nics # over tcp the interfaces of data are those that both ends listen on
fi

# information WHEN: the counters of the interfaces, as the kernel and their drivers have them.
information()
{
	echo "== interfaces $1 the run, $(date '+%F %T')"
	cat /proc/net/dev
	echo "== statistics of NICs $1 the run (as ethtool -S)"
	"$tool" diag counters 2>&1
}

TCPX_PERF_SIZE=$size TCPX_PERF_ITERS=$iters pair_default 64M 20 "$CHANNELS"
log_begin "bench_${role}_$(stamp).log"
if [ -n "$notes" ]; then echo "$notes" >>"$log"; fi
{
	echo "== $me $role GPU $gpu"
	"$tool" topo 2>&1
	information before
} >"$LOG_DIR/infomation.log"
pair_run
rc=$?
information after >>"$LOG_DIR/infomation.log"
[ $rc -eq 0 ] || exit $rc
# Of the lines by iteration; the rate follows from the mean that the tool tells, of the same bytes.
steady=$(awk -v skip="$skip" '
	/^\[PERF\] Iter / && $3 >= skip { sub("time=", "", $4); sum += $4 + 0; n++ }
	/^\[PERF\] Avg \(/ { mean = $5; rate = $8 }
	END { if (n && sum) printf "%.3f ms, BW: %.2f GB/s\n", sum / n, rate * mean / (sum / n) }' \
	"$log")
if [ -n "$steady" ]; then
	say "[STEADY-STATE] Avg time: $steady"
else
	say "[WARN] fewer iterations than --skip-warmup=$skip leaves out"
fi
