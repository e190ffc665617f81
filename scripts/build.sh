#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a build folder when it must be, then builds it.
# Usage: [QUIET=1] scripts/build.sh DIR [meson option]...
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

dir=$1
shift
# Parts found now, options asked for, folders there are: another answer than last time means a new
# configuration, or a part installed since would stay left out.
stamp="$* | $(meson --version) | $(${CC:-cc} --version 2>/dev/null | head -n 1) |"
stamp="$stamp $(${CXX:-c++} --version 2>/dev/null | head -n 1) |"
stamp="$stamp $(find . -name meson.build -not -path './build*' | sort | cksum)"
for part in jansson cmocka hwloc; do
	stamp="$stamp $part=$(pkg-config --modversion $part 2>/dev/null || echo none)"
done

kernels=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
stamp="$stamp nvcc=$("$kernels" --version 2>/dev/null | tail -n 1 || true)"

if [ ! -f "$dir/build.ninja" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$stamp" ]; then
	wipe=
	if [ -d "$dir/meson-private" ]; then wipe=--wipe; fi
	mkdir -p "$dir"
	# shellcheck disable=SC2086
	if ! log=$(meson setup $wipe "$dir" "$@" 2>&1); then
		printf '%s\n' "$log" >&2
		exit 1
	fi
	printf '%s\n' "$log" >"$dir/setup.log"
	printf '%s\n' "$stamp" >"$dir/.configured"
fi
# A first build takes minutes: say so. Of a few files, and in a script, nothing.
if [ -z "${QUIET:-}" ]; then
	steps=$(ninja -C "$dir" -n 2>/dev/null | sed -nE '$s/^\[[0-9]+\/([0-9]+)\].*/\1/p')
	[ "${steps:-0}" -lt 50 ] || echo "building ($steps files) ..."
fi
# On a terminal ninja shows how far it is, and what goes wrong.
if [ -z "${QUIET:-}" ] && [ -t 1 ] && [ "${steps:-0}" -ge 50 ]; then
	ninja -C "$dir" ${JOBS:+-j "$JOBS"} || exit 1
fi
# Elsewhere a line at each quarter; what ninja prints goes to the log.
log_quarters() {
	local said=0 quarter line
	while IFS= read -r line; do
		printf '%s\n' "$line" >&3
		[[ "$line" =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
		quarter=$((4 * BASH_REMATCH[1] / BASH_REMATCH[2]))
		if [ "$quarter" -le "$said" ] || [ "$quarter" -ge 4 ]; then continue; fi
		said=$quarter
		echo "building: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} files"
	done 3>"$dir/build.log"
}
build() (
	set -o pipefail
	if [ -n "${QUIET:-}" ] || [ -t 1 ] || [ "${steps:-0}" -lt 50 ]; then
		ninja -C "$dir" ${JOBS:+-j "$JOBS"} >"$dir/build.log" 2>&1
	else
		ninja -C "$dir" ${JOBS:+-j "$JOBS"} 2>&1 | log_quarters
	fi
)
if ! build; then
	{
		grep -A 4 -E 'error:|undefined reference|FAILED:|ERROR' "$dir/build.log" ||
			cat "$dir/build.log"
	} | head -n 35 >&2
	echo "build failed: $dir/build.log" >&2
	exit 1
fi
grep -A 6 -E 'warning:' "$dir/build.log" >&2 || true
# The tool at build/tcpx, wherever its folder is.
for tool in tools/tcpx/tcpx tools/tcpx; do
	if [ -f "$dir/$tool" ] && [ -x "$dir/$tool" ]; then ln -sfn "$tool" "$dir/tcpx"; fi
done
