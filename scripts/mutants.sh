#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants each fault of tests/mutants/*.patch in a copy of the tree and shows that it is caught.
# A patch starts with "Breaks: promise" and "Caught by: test". Usage: scripts/mutants.sh [NAME...]
# Prints "ok NAME ..." or "FAIL NAME ..." for each and a count, at the end; exit 1 when one is not
# caught.
# JOBS copies at a time, twice the cores by default: what a fault makes hang only waits.
set -u
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/env.sh
. scripts/env.sh
top=$PWD
jobs=${JOBS:-$((2 * $(nproc)))}
export TEST_LONG=1 # every case of a suite, or a fault is missed by one left out
place=$(mktemp -d "${TMPDIR:-/tmp}/tcpx-mutants.XXXXXX") || exit 1
trap 'rm -rf "$place"' EXIT

python=python3
if ! $python -c 'import pytest' 2>/dev/null; then python=/usr/bin/python3; fi

field()
{
	sed -n "s/^$2: //p" "$1" | head -n 1
}

# A file of tests/system: as run_test.
run_file()
{
	local stand_ins=(emu/tcpxemu/libnccl-net-tcpxemu.so emu/fakerxdm/fakerxdm
		emu/fakecuda/libfakecuda.so emu/fakenvml/libfakenvml.so
		emu/fakecuda/libfakekernels.so tests/system/netpeer)
	if ! ninja -C build tools/tcpx "${stand_ins[@]}" >test.log 2>&1; then return 2; fi
	TEST_LONG=0 TCPX_TOOL=$PWD/build/tools/tcpx "$python" -m pytest -q -x -p no:cacheprovider \
		"tests/system/$1" >test.log 2>&1
	case $? in
	0) return 0 ;;
	1) return 1 ;;
	*) return 2 ;;
	esac
}

# Runs one test of meson by name, or a file of tests/system: 0 it passes, 1 it fails, 2 it did not
# run (build, name, skip).
# The test is run first as it is, then with the fault: only the change of verdict counts.
run_test()
{
	local json=build/meson-logs/testlog.json
	case $1 in
	*.py)
		run_file "$1"
		return
		;;
	esac
	rm -f "$json"
	meson test -C build "$1" >test.log 2>&1
	local bad='"result": "(FAIL|TIMEOUT|ERROR|INTERRUPT)"'
	if grep -qE "$bad" "$json" 2>/dev/null; then return 1; fi
	if grep -q '"result": "OK"' "$json" 2>/dev/null; then return 0; fi
	return 2
}

try()
{
	local name=$1 patch=$2 breaks test
	breaks=$(field "$patch" Breaks)
	test=$(field "$patch" 'Caught by')
	if [ -z "$breaks" ] || [ -z "$test" ]; then
		echo "FAIL $name: no line 'Breaks:' or 'Caught by:'"
		return
	fi
	case " $clean " in
	*" $test "*) ;;
	*)
		if ! run_test "$test"; then
			echo "FAIL $name: $test does not pass on the tree as it is"
			return
		fi
		clean="$clean $test"
		;;
	esac
	if ! git apply -C1 "$patch" 2>apply.log; then
		echo "FAIL $name: does not apply: $(head -n 1 apply.log)"
		return
	fi
	run_test "$test"
	case $? in
	1) echo "ok $name: $breaks; caught by $test" ;;
	0) echo "FAIL $name: $breaks; $test does not notice" ;;
	*) echo "FAIL $name: does not build: $(grep -m1 error: test.log)" ;;
	esac
	git apply -C1 -R "$patch"
}

# In a copy of what is tracked or would be: every JOBS-th of the patches, from the k-th on.
work()
{
	local k=$1 patch
	shift
	mkdir "$place/$k" || return
	git ls-files -z --cached --others --exclude-standard |
		tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null |
		tar -xf - -C "$place/$k"
	cd "$place/$k" || return
	git init -q . # so that git apply works on this copy and nothing above it
	if ! meson setup build -Dbuildtype=debugoptimized >setup.log 2>&1; then
		echo "FAIL setup: $(tail -n 1 setup.log)"
		return
	fi
	clean=""
	while [ "$#" -ge "$k" ]; do
		patch=${!k}
		try "$(basename "$patch" .patch)" "$patch"
		shift "$((jobs < $# ? jobs : $#))"
	done
}

patches=()
for patch in "$top"/tests/mutants/*.patch; do
	name=$(basename "$patch" .patch)
	[ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
	patches+=("$patch")
done
[ "$jobs" -le "${#patches[@]}" ] || jobs=${#patches[@]}
for k in $(seq "$jobs"); do
	work "$k" "${patches[@]}" &
done >"$place/verdicts"
wait
# Where a test noticed nothing beside others, or failed without a fault, it is tried again with the
# machine to itself.
unsure='does not (notice|pass on the tree as it is)$'
again=$(sed -n -E "s/^FAIL ([^:]*): .* $unsure/\\1/p" "$place/verdicts")
if [ -n "$again" ] && [ "$jobs" -gt 1 ]; then
	sed -i -E "/ $unsure/d" "$place/verdicts"
	patches_again=()
	for name in $again; do patches_again+=("$top/tests/mutants/$name.patch"); done
	jobs=1
	rm -rf "$place/1"
	work 1 "${patches_again[@]}" >>"$place/verdicts"
fi
cat "$place/verdicts"
passed=$(grep -c '^ok ' "$place/verdicts")
failed=$(grep -c '^FAIL ' "$place/verdicts")
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" = "${#patches[@]}" ] && [ "$passed" -gt 0 ]
