#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every success criterion of the predecessor on two A3 hosts, each with value, unit and source, and
# PASS, FAIL or NOT MEASURED. Start it on both; the server's end has the verdict.
# Exit: 0 nothing failed; 1 a criterion did; 2 wrong usage.
set -u
usage()
{
	cat <<END
usage: accept-a3.sh server [--runs N] | client IP [--runs N] | --dry-run [--runs N] [--build DIR]
  --runs N    runs of the stability criterion (20); the same at both ends
  --dry-run   both ends on this machine over the emulator: what works is judged, rates are not
  --build DIR where the emulator is (default: build)
Settings as those of scripts/compat/common.sh: TCPX_KEY_FILE, TCPX_BIND, TCPX_TOOL.
END
}
# shellcheck source=scripts/compat/common.sh
. "$(dirname "$0")/compat/common.sh"

words=()
dry=
runs=20
build=$top/build
judge=("${tether[@]}" "$top/scripts/accept_a3.py")
while [ $# -gt 0 ]; do
	case "$1" in
	--dry-run) dry=1 ;;
	--runs | --build)
		[ $# -ge 2 ] || wrong "$1 wants a value"
		if [ "$1" = --runs ]; then runs=$2; else build=$2; fi
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	-*) wrong "'$1' is no option" ;;
	*) words+=("$1") ;;
	esac
	shift
done
need_number --runs "$runs"
[ "$runs" -ge 1 ] || wrong "--runs begins at 1"
need_number port "$(first_port)"
if [ -n "$dry" ]; then
	[ ${#words[@]} -eq 0 ] || wrong "--dry-run plays both ends"
	build=$(cd "$build" && pwd) || exit 2
	[ -e "$build/emu" ] || die "no emulator in $build; name the build's folder by --build" 2
	# shellcheck source=scripts/emulated-a3.sh
	. "$top/scripts/emulated-a3.sh"
	folder=$(mktemp -d) || exit 1
	trap 'rm -rf "$folder"' EXIT
	emulated_a3 "$top" "$build" "$folder"
	export TCPX_UNPACK_IMPL=d2d TCPX_BIND=127.0.0.1
	LOG_DIR=$folder/logs TCPX_TOOL=$tool "${judge[@]}" dry 127.0.0.1 "$runs" "$(first_port)"
	exit $?
fi
parse_pair 0 "${words[@]}"
[ ${#words[@]} -eq $((1 + (${#host} > 0))) ] || wrong "too many words"
reach_args "$host"
TCPX_TOOL=$tool "${judge[@]}" "$role" "${host:--}" "$runs" "$(first_port)" "${reach[@]}"
