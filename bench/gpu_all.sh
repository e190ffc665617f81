#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that a machine with GPUs should measure, in one call of a few minutes: the conformance
# suite over GPU memory, the kernels' tests, compute-sanitizer, every row of tcpx perf, NCCL beside
# them. What cannot be done here is named and left out.
set -u

usage() {
	cat <<'END'
usage: bench/gpu_all.sh [options] FOLDER
Writes info.txt, tests.txt, perf.json, nccl.jsonl, nccl.txt and table.md into FOLDER and prints
the table.
  --build DIR        where the programs are [build]; each may be named by itself:
  --tool FILE        tcpx [DIR/tools/tcpx]
  --conform FILE     the conformance suite [DIR/tests/conform/conform]
  --kernels FILE     tests of the copy kernels [DIR/tests/gpu/gpu_copy_kernels]
  --checks FILE      tests of the tool's kernels [DIR/tests/gpu/gpu_check_kernels]
  --beside FILE      tests of what runs beside us [DIR/tests/gpu/gpu_beside]
  --unpack FILE      tests of the unpack kernels [DIR/tests/gpu/gpu_unpack]
  --emulator FILE    the TCPX emulator [DIR/emu/tcpxemu/libnccl-net-tcpxemu.so]
  --raw FILE         its calls alone [DIR/tests/emu/emu_rate]
  --nccl FILE        nccl_p2p [DIR/bench/nccl_p2p]
  --grid WHICH       NCCL's tunings: full (45, many minutes), short (6), none [short]
  --repeat N         repetitions of the rows [5]
  --limit S          begin no further row after so many seconds [420]
  --short            fewer sizes, depths and cases, 2 repetitions
  --without LIST     leave out: tests, sanitizer, unpack, plugin, perf, nccl (separated by commas)
Exit: 0 all passed; 1 something failed or missed its bound; 2 wrong usage.
END
}

here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$here")/build
tool='' conform='' kernels='' checks='' nccl='' grid=short
beside='' unpack='' emulator='' raw='' folder='' repeat='' limit=420 short='' without=''
while [ $# -gt 0 ]; do
	case $1 in
	--build | --tool | --conform | --kernels | --checks | --beside | --nccl | --grid | \
		--repeat | --limit | --without | --unpack | --emulator | --raw)
		[ $# -ge 2 ] || { usage >&2; exit 2; }
		printf -v "${1#--}" %s "$2"
		shift
		;;
	--short) short=--short ;;
	--help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) folder=$1 ;;
	esac
	shift
done
[ -n "$folder" ] || { usage >&2; exit 2; }
: "${tool:=$build/tools/tcpx}" "${conform:=$build/tests/conform/conform}"
: "${kernels:=$build/tests/gpu/gpu_copy_kernels}" "${checks:=$build/tests/gpu/gpu_check_kernels}"
: "${beside:=$build/tests/gpu/gpu_beside}" "${nccl:=$build/bench/nccl_p2p}"
: "${unpack:=$build/tests/gpu/gpu_unpack}" "${raw:=$build/tests/emu/emu_rate}"
: "${emulator:=$build/emu/tcpxemu/libnccl-net-tcpxemu.so}"
: "${repeat:=$([ -n "$short" ] && echo 2 || echo 5)}"
[ -x "$tool" ] || { echo "gpu_all.sh: no tool at $tool: --build or --tool" >&2; exit 2; }
mkdir -p "$folder" || exit 2
failed=0

wanted() { case ",$without," in *",$1,"*) return 1 ;; esac; }

log=$folder/tests.txt

left_out() { echo "left out: $*" | tee -a "$log"; }

# step WORDS COMMAND...: its output into the log, one line of the result here
step() {
	local words=$1 start=$SECONDS rc
	shift
	printf '## %s\n' "$*" >>"$log"
	"$@" >>"$log" 2>&1
	rc=$?
	case $rc in
	0) echo "ok: $words ($((SECONDS - start)) s)" ;;
	77) left_out "$words: it says it cannot run here" ;;
	*)
		echo "FAILED: $words (exit $rc, see tests.txt)"
		tail -n 5 "$log"
		failed=1
		;;
	esac
}

# conform_one TRANSPORT PROCESSES NEAR FAR: kinds of memory of the two ends
conform_one() {
	local far=(--far-mem "$4")

	if ! "$conform" --help 2>&1 | grep -q -- --far-mem; then
		[ "$3" = "$4" ] || return 0
		far=()
	fi
	step "conformance: $1, $2 processes, $3 to $4" timeout 400 "$conform" --transport "$1" \
		--processes "$2" --mem "$3" "${far[@]}" --short
}

# conform_plugin MEM FAR: over the emulator, whose memory mode is MEM; its NICs are no GPU's here
conform_plugin() {
	step "conformance: gpudirect over the emulator, $1, cuda to $2" \
		env TCPXEMU_MEM="$1" TCPXEMU_STEER=off TCPXEMU_FRAG=rand TCPX_PAIRING=0 \
		TCPX_GPUDIRECT_SAME_HOST=1 TCPX_GPUDIRECT_COVER=0 \
		NCCL_DYNAMIC_CHUNK_SIZE=524288 timeout 400 \
		"$conform" --transport plugin --plugin "$emulator" --processes 2 --mem cuda \
		--far-mem "$2" --short
}

conform_end() {
	local i

	for i in "${!pids[@]}"; do
		wait "${pids[i]}" || failed=1
		cat "$folder/log.$i" >>"$log"
		rm -f "$folder/log.$i"
	done
	pids=()
}

# Reads lines of conform_one's arguments. Several at once, each with a log of its own: most of the
# time is a GPU's context, once for each case.
conform_rows() {
	local -a args pids=()
	local line jobs=$(($(nproc) / 4))

	[ $jobs -le 8 ] || jobs=8

	while read -r line; do
		read -ra args <<<"$line"
		(
			log=$folder/log.${#pids[@]} failed=0
			: >"$log"
			if [ "${args[0]}" = plugin ]; then
				conform_plugin "${args[@]:1}" </dev/null
			else
				conform_one "${args[@]}" </dev/null
			fi
			exit $failed
		) &
		pids+=($!)
		[ ${#pids[@]} -lt $jobs ] || conform_end
	done
	conform_end
}

run_conform() {
	local transport processes ends pairs=("cuda cuda" "cuda host" "host cuda") far_gpu=cuda:0

	if [ "$gpus" -ge 2 ]; then
		pairs+=("cuda cuda:1")
		far_gpu=cuda:1
	fi
	if [ ! -x "$conform" ] || ! "$conform" --help 2>&1 | grep -q cuda; then
		left_out "conformance: $conform is not there, or knows no GPU memory"
		return
	fi
	conform_rows < <(
		if wanted plugin && [ -f "$emulator" ]; then
			echo "plugin cuda-dev-bounce $far_gpu"
			echo "plugin cuda-host-bounce $far_gpu"
		fi
		echo "local 2 cuda-vmm ${far_gpu/cuda/cuda-vmm}"
		for transport in tcp local; do
			for processes in 1 2; do
				for ends in "${pairs[@]}"; do
					echo "$transport $processes $ends"
				done
				[ -z "$short" ] || break
			done
		done
	)
}

run_kernels() {
	local tool_name

	if [ ! -x "$kernels" ]; then
		left_out "tests of the kernels: $kernels is not there"
		return
	fi
	step "tests of the kernels" timeout 120 "$kernels"
	if [ -x "$checks" ]; then
		step "tests of the tool's kernels" timeout 120 "$checks"
	fi
	step "rates of the kernels" timeout 120 "$kernels" --bench
	wanted sanitizer || return
	if ! command -v compute-sanitizer >/dev/null; then
		left_out "compute-sanitizer: it is not in PATH"
		return
	fi
	for tool_name in memcheck racecheck initcheck; do
		step "compute-sanitizer $tool_name" timeout 200 compute-sanitizer \
			--tool $tool_name --error-exitcode 1 "$kernels" --rounds 20 --serial
	done
}

run_unpack() {
	local tool_name

	if [ ! -x "$unpack" ]; then
		left_out "tests of the unpack kernels: $unpack is not there"
		return
	fi
	step "tests of the unpack kernels" timeout 200 "$unpack" --rounds 10
	step "rates of the unpack kernels" timeout 100 "$unpack" --bench
	[ "$gpus" -lt 2 ] || step "the same, to GPU 1" timeout 100 "$unpack" --bench --relay
	if ! wanted sanitizer || ! command -v compute-sanitizer >/dev/null; then
		return
	fi
	for tool_name in memcheck racecheck; do
		step "compute-sanitizer $tool_name, unpacking" timeout 200 compute-sanitizer \
			--tool $tool_name --target-processes all --error-exitcode 1 "$unpack" \
			--rounds 1 by_kernel
	done
}

run_plugin() {
	if [ -x "$raw" ] && [ -f "$emulator" ] && [ -f "$here/plugin_rate.py" ]; then
		step "gpudirect beside the emulator alone" timeout 300 "$here/plugin_rate.py" \
			--tool "$tool" --raw "$raw" --emulator "$emulator" --repeat "$repeat" \
			--channels 1,4 --time 0.6 --gpus "0,$((gpus > 1))"
	else
		left_out "gpudirect beside the emulator: $raw or $emulator is not there"
	fi
}

run_beside() {
	if [ -x "$beside" ]; then
		step "what runs beside us" timeout 300 "$beside"
		step "the same, by reference" timeout 300 "$beside" --local
	else
		left_out "what runs beside us: $beside is not there"
	fi
}

run_nccl() {
	if [ "$gpus" -lt 2 ]; then
		left_out "NCCL: it wants two GPUs"
	elif [ ! -x "$nccl" ] || [ ! -f "$here/nccl_p2p.py" ]; then
		left_out "NCCL: $nccl or nccl_p2p.py is not there"
	else
		python3 "$here/nccl_p2p.py" --binary "$nccl" --out "$folder/nccl.jsonl" --gpus 0,1 \
			--grid "$grid" 2>&1 | tee "$folder/nccl.txt"
		case ${PIPESTATUS[0]} in
		0) ;;
		77) left_out "NCCL: nccl_p2p says it cannot run here" ;;
		*) failed=1 ;;
		esac
	fi
}

: >"$folder/tests.txt"
{
	"$tool" info
	nproc
	uname -srm
	nvidia-smi topo -m
} >"$folder/info.txt" 2>&1
gpus=$("$tool" info | grep -c '^  cuda:')
grep '^gpus:\|^  cuda:' "$folder/info.txt"
if [ "$gpus" -eq 0 ]; then
	echo "gpu_all.sh: no GPU, nothing to measure" >&2
	exit 1
fi
if wanted tests; then
	run_conform
	run_kernels
	run_beside
fi
if wanted unpack; then
	run_unpack
fi
if wanted plugin; then
	run_plugin
fi
if wanted nccl; then
	run_nccl
fi
if wanted perf; then
	python3 "$here/gpu_rows.py" --tool "$tool" --gpus "$gpus" --repeat "$repeat" \
		--limit "$limit" --out "$folder/perf.json" ${short:+--short} || failed=1
	python3 "$here/gpu_table.py" "$folder" >"$folder/table.md" || failed=1
	cat "$folder/table.md"
fi
exit $failed
