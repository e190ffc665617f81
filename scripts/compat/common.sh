# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the predecessor's commands: the tool, the transport, logs, and one pair of GPUs.
#   TCPX_TOOL               the tool; else build/tcpx of this checkout, else the one on PATH
#   TCPX_COMPAT_TRANSPORT   tcp (host memory) or gpudirect; else gpudirect where a plugin is
#   TCPX_COMPAT_INSECURE=1  go beyond loopback without a key (else TCPX_KEY_FILE)
#   LOG_DIR                 folder of the logs (default: logs)
# The settings of UCCL_TCPX_* keep their meaning; the TCPX_ name of one beats it.
set -u -o pipefail

compat=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$compat/../.." && pwd)
me=$(basename "$0")
# options of a script, none by default
ctrl='' chunk='' unpack='' nics=''
unit_line="# GB/s are 10^9 bytes; older logs counted 2^30"
plugin_places="/usr/local/tcpx/lib64/libnccl-net-tcpx.so /var/lib/tcpx/lib64/libnccl-net-tcpx.so"

# Before a command: it ends with the script, whatever ends that.
tether=()
if command -v setpriv >/dev/null; then tether=(setpriv --pdeathsig TERM); fi

die()
{
	echo "$me: $1" >&2
	exit "${2:-1}"
}

# The script's usage, and why: exit 2.
wrong()
{
	[ $# -eq 0 ] || echo "$me: $1" >&2
	usage >&2
	exit 2
}

# setting DEFAULT NAME...: the first of these variables that is not empty.
setting()
{
	local name text=$1
	shift
	for name; do
		if [ -n "${!name:-}" ]; then
			text=${!name}
			break
		fi
	done
	printf '%s\n' "$text"
}

need_number()
{
	[[ $2 =~ ^(0|[1-9][0-9]{0,8})$ ]] || wrong "$1: '$2' is no number"
}

# bytes_of WHAT TEXT: sets $bytes.
bytes_of()
{
	local text=${2^^}
	text=${text%B}
	text=${text%I}
	[[ $text =~ ^[1-9][0-9]{0,12}[KMGT]?$ ]] || wrong "$1: '$2' is no size (64MB, 512K, 4096)"
	bytes=$(numfmt --from=iec "$text")
}

find_tool()
{
	if [ -n "${TCPX_TOOL:-}" ]; then
		[ -x "$TCPX_TOOL" ] || die "TCPX_TOOL=$TCPX_TOOL cannot be run"
		tool=$TCPX_TOOL
	elif [ -x "$top/build/tcpx" ]; then
		tool=$top/build/tcpx
	else
		tool=$(command -v tcpx) || die "no tcpx: 'make' in $top builds it, or set TCPX_TOOL"
	fi
	export -n TCPX_TOOL
}

# Sets transport and why. A plugin that is named is used, also one that turns out not to be there.
find_transport()
{
	local file place
	transport=${TCPX_COMPAT_TRANSPORT:-}
	why="TCPX_COMPAT_TRANSPORT"
	case "$transport" in
	tcp | gpudirect) ;;
	"")
		transport=gpudirect
		file=$(setting "" TCPX_PLUGIN TCPX_PLUGIN_PATH UCCL_TCPX_PLUGIN_PATH)
		for place in $plugin_places; do
			if [ -z "$file" ] && [ -e "$place" ]; then file=$place; fi
		done
		why="plugin $file"
		if [ -z "$file" ]; then
			transport=tcp
			why="no TCPX plugin here; scripts/stage-plugin.sh puts it in place"
		fi
		;;
	*) die "TCPX_COMPAT_TRANSPORT=$transport is neither tcp nor gpudirect" 2 ;;
	esac
	if [ "$transport" = tcp ]; then
		why="host memory; $why"
		unset TCPX_PLUGIN
	fi
	insecure=${TCPX_COMPAT_INSECURE:-0}
	export -n TCPX_COMPAT_TRANSPORT TCPX_COMPAT_INSECURE
}

# log_begin NAME: $log, which tells what it is first.
log_begin()
{
	LOG_DIR=${LOG_DIR:-logs}
	log=$LOG_DIR/$1
	mkdir -p "$LOG_DIR" || exit 1
	{
		echo "# $me, $(date '+%F %T'), $(uname -n)"
		echo "$unit_line"
		echo "# transport $transport ($why)"
	} >"$log" || exit 1
}

stamp()
{
	date +%Y%m%d_%H%M%S
}

say()
{
	printf '%s\n' "$*" | tee -a "$log"
}

# The command in the log, and its output in the log and here; its exit code.
run_logged()
{
	cat "$log"
	say "# $*"
	"${tether[@]}" "$@" 2>&1 | tee -a "$log"
}

# reach_args HOST: sets reach, the options of where to listen and of trust. ctrl is the interface of
# control (--ctrl), else TCPX_BIND is the tool's to read.
reach_args()
{
	reach=()
	if [ -n "$ctrl" ]; then
		reach=(--bind "$ctrl")
	elif [ -z "${TCPX_BIND:-}" ]; then
		case "$1" in
		127.* | localhost | ::1) ;;
		*) reach=(--bind "$(setting eth0 NCCL_GPUDIRECTTCPX_CTRL_DEV)") ;;
		esac
	fi
	if [ "$insecure" = 1 ]; then reach+=(--insecure); fi
}

# The port of control, where it is named; else $1.
oob_port()
{
	setting "${1:-}" TCPX_OOB_PORT UCCL_TCPX_OOB_PORT UCCL_TCPX_CTRL_PORT UCCL_TCP_OOB_PORT
}

# Where GPU 0's pair meets; the others follow.
first_port()
{
	oob_port "$(setting 20000 TCPX_PORT_BASE UCCL_TCPX_BOOTSTRAP_PORT_BASE \
		TCPX_BOOTSTRAP_PORT_BASE)"
}

# The script's default, or what the environment says in its place.
channels_or()
{
	setting "$1" TCPX_CHANNELS UCCL_TCPX_NUM_CHANNELS TCPX_NUM_CHANNELS
}

size_or()
{
	setting "$1" TCPX_PERF_SIZE UCCL_TCPX_PERF_SIZE
}

iters_or()
{
	setting "$1" TCPX_PERF_ITERS UCCL_TCPX_PERF_ITERS
}

chunk_or()
{
	setting "$1" TCPX_CHUNK_BYTES UCCL_TCPX_CHUNK_BYTES NCCL_P2P_NET_CHUNKSIZE
}

# parse_pair GPU WORD...: sets role, host and gpu from the words; where they name no GPU it is the
# first, or if that is empty, too, wrong.
parse_pair()
{
	local default=$1 most=2
	shift
	role=${1:-}
	case "$role" in
	server)
		host=
		gpu=${2:-$default}
		;;
	client)
		host=${2:-}
		gpu=${3:-$default}
		most=3
		[ -n "$host" ] || wrong "client wants the server's address"
		;;
	-h | --help)
		usage
		exit 0
		;;
	*) wrong "the first word is server or client, not '$role'" ;;
	esac
	[ $# -le $most ] || wrong "too many words"
	[ -n "$gpu" ] || wrong "$role wants the number of its GPU"
	need_number gpu "$gpu"
}

# wait_for HOST PORT: a client may start before its server, as it always could. What is wrong, if
# it never comes, the tool says.
wait_for()
{
	local until=$((SECONDS + 30)) told=
	# shellcheck disable=SC2016
	until timeout 2 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" 2>/dev/null; do
		kill -0 $$ 2>/dev/null || exit 1 # the mesh is gone, of which this is one
		if [ $SECONDS -ge $until ] || ! getent ahosts "$1" >/dev/null; then break; fi
		[ -n "$told" ] || echo "$me: nobody listens at $1:$2 yet; waiting 30 s for it" >&2
		told=1
		sleep 0.2
	done
}

# pair_argv PORT SIZE ITERS CHANNELS [OPTION of perf...]: sets argv, the command of this role for
# $gpu with the GPU of the other side's. The bytes go from the client to the server, one transfer
# after the other, so that the time of an iteration is that of a transfer. Of the caller: chunk,
# unpack and nics, which may be empty.
pair_argv()
{
	local port=$1 size=$2 iters=$3 channels=$4
	shift 4
	bytes_of size "${size##*,}"
	need_number iters "$iters"
	need_number channels "$channels"
	# where it listens and goes, and the number that its lines tell; a client knows of no other
	# port
	export TCPX_OOB_PORT=$port TCPX_LOCAL_DEVICE=$gpu
	TCPX_PORT_RETRIES=$(setting 0 TCPX_PORT_RETRIES UCCL_TCPX_PORT_RETRIES)
	export TCPX_PORT_RETRIES
	reach_args "${host:-}"
	if [ "$role" = server ]; then
		argv=("$tool" serve --once --die-with-parent --perf-lines)
	else
		argv=("$tool" perf "$host" --perf-lines --size "$size" --iters "$iters" --depth 1
			--working-set $((4 * bytes)) "$@")
	fi
	argv+=(--channels "$channels" "${reach[@]}")
	if [ -n "$chunk" ]; then argv+=(--chunk "$chunk"); fi
	if [ "$transport" = tcp ]; then
		if [ "$role" = server ]; then argv+=(--no-local); else argv+=(--transport tcp); fi
		return
	fi
	argv+=(--transport gpudirect --plugin-channels "$channels" --gpu "$gpu" --mem "cuda:$gpu")
	if [ "$role" = client ]; then argv+=(--remote-mem cuda); fi
	if [ -n "$unpack" ]; then argv+=(--unpack "$unpack"); fi
	if [ -n "$nics" ]; then argv+=(--nic "$nics"); fi
}

# pair_default SIZE ITERS CHANNELS: argv of settings in the environment, else these.
pair_default()
{
	local port
	port=$(first_port)
	need_number port "$port"
	if [ -z "$(oob_port)" ]; then port=$((port + gpu)); fi
	chunk=${chunk:-$(chunk_or 512K)}
	pair_argv "$port" "$(size_or "$1")" "$(iters_or "$2")" "$(channels_or "$3")" "${@:4}"
}

# Runs argv in the log and here.
pair_run()
{
	if [ "$role" = client ]; then wait_for "$host" "$TCPX_OOB_PORT"; fi
	run_logged "${argv[@]}"
}

# pair_test SIZE ITERS CHANNELS ...: a test program of the pair kind; the rest are its words. Its
# log is server.log or client.log.
pair_test()
{
	parse_pair "" "${@:4}"
	pair_default "$1" "$2" "$3"
	log_begin "$role.log"
	pair_run
}

# node_run OPTION...: 'tcpx node' of this role. Two by hand, so neither a launcher nor a list of
# hosts that somebody has exported says who they are.
node_run()
{
	unset HOSTFILE TCPX_HOSTFILE
	if [ "$transport" = tcp ]; then set -- "$@" --mem host; fi
	reach_args "$host"
	run_logged "$tool" node --launcher none --transport "$transport" --perf-lines "$@" \
		"${reach[@]}" ${host:+"$host"}
}

# node_test WHAT ...: 'tcpx node --check WHAT', whose last line is PASS or FAIL.
node_test()
{
	local what=$1 base
	shift
	parse_pair 0 "$@"
	base=$(first_port)
	need_number port "$base"
	log_begin "$role.log"
	node_run --check "$what" --gpus "$gpu" --port-base "$base"
}

find_tool
find_transport
