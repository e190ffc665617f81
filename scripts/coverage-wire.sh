#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Branch coverage of src/wire by its unit tests and fuzz corpora. Fails below the share asked for.
# Usage: scripts/coverage-wire.sh [--min PERCENT] [--show]
#   --min PERCENT  least branch coverage of the folder (default 90)
#   --show         print the source with counts too
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
min=90
show=
while [ $# -gt 0 ]; do
	case $1 in
	--min) min=$2 && shift ;;
	--show) show=1 ;;
	*) sed -n '3,6s/^# //p' "$0" >&2 && exit 2 ;;
	esac
	shift
done

# The newest of each, with or without the version in its name.
tool() {
	local name
	for name in "$1" "$1-19" "$1-18" "$1-17" "$1-16" "$1-15" "$1-14"; do
		if command -v "$name" >/dev/null 2>&1; then
			echo "$name"
			return
		fi
	done
	echo "coverage-wire: $1 is missing (apt-get install clang llvm)" >&2
	return 1
}
clang=$(tool clang)
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

flags=(-std=gnu11 -D_GNU_SOURCE -g -O0 -fprofile-instr-generate -fcoverage-mapping
	-Iinclude -Isrc -Itests -Itests/support "-DGOLDEN_DIR=\"$root/tests/golden\"")
objects=()
for file in src/base/*.c src/wire/*.c; do
	object=$work/$(basename "${file%.c}").o
	"$clang" "${flags[@]}" -c "$file" -o "$object"
	objects+=("$object")
done

programs=()
build() { # name source...
	local out=$work/$1
	shift
	"$clang" "${flags[@]}" "$@" "${objects[@]}" -o "$out" -lpthread
	programs+=("$out")
}
for name in hello frame info token table control rxdm; do
	build "fuzz_$name" "fuzz/fuzz_$name.c" fuzz/replay.c
	LLVM_PROFILE_FILE=$work/fuzz_$name.profraw "$work/fuzz_$name" "fuzz/corpus/$name" 20000 \
		>/dev/null
done
if printf '#include <%s.h>\n' stdarg stddef setjmp stdint cmocka |
	"$clang" -fsyntax-only -xc - 2>/dev/null; then
	for file in tests/unit/test_wire_*.c tests/topo/test_rxdm_wire.c; do
		name=$(basename "${file%.c}")
		build "$name" "$file" -lcmocka
		LLVM_PROFILE_FILE=$work/$name.profraw "$work/$name" >/dev/null 2>&1
	done
else
	echo "coverage-wire: without cmocka, by the fuzz corpora alone" >&2
fi

"$profdata" merge -o "$work/all.profdata" "$work"/*.profraw
args=("${programs[0]}")
for program in "${programs[@]:1}"; do
	args+=(-object "$program")
done
args+=(-instr-profile "$work/all.profdata")
if [ -n "$show" ]; then
	"$cov" show "${args[@]}" --show-branches=count src/wire
fi
"$cov" report "${args[@]}" --show-region-summary=0 --show-branch-summary src/wire |
	sed "s,$root/,," | tee "$work/report"
awk -v min="$min" '$1 == "TOTAL" {
	share = $NF + 0
	printf "branches of src/wire: %.2f %%, asked for: %s %%\n", share, min
	exit share < min
}' "$work/report"
