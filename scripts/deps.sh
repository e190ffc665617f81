#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what scripts/packages.txt lists for the given levels, only what is missing, and says so.
# Usage: scripts/deps.sh [--list|--check] LEVEL...      levels: build part test site full bench
# --list prints the packages that are missing; --check installs none and says what is left out.
# Exit: 0 when everything of level 'build' is there, 1 otherwise; the rest is optional.
set -u
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/env.sh
. scripts/env.sh

mode=install
case "${1:-}" in
--list) mode=list && shift ;;
--check) mode=check && shift ;;
esac
levels=" ${*:-build part test site} "

probe_header()
{
	printf '#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1
}

probe_library()
{
	PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$1 "
}

probe_cxx()
{
	printf '#include <cstdint>\nint main() { return 0; }\n' |
		c++ -std=c++11 -x c++ -fsyntax-only - >/dev/null 2>&1
}

probe_fuzz()
{
	printf 'int LLVMFuzzerTestOneInput(void) { return 0; }\n' |
		clang -fsanitize=fuzzer -x c -o /dev/null - >/dev/null 2>&1
}

# Whether what a line is for is already here, from whatever source.
have()
{
	case "$1" in
	cmd:meson) meson_ok ;;
	cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
	pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
	py:*) python_with "${1#py:}" >/dev/null ;;
	so:*) probe_library "${1#so:}" ;;
	h:*) probe_header "${1#h:}" ;;
	cxx) probe_cxx ;;
	fuzz) probe_fuzz ;;
	*) echo "scripts/packages.txt: unknown probe $1" >&2 && return 1 ;;
	esac
}

# Prints "package<TAB>what is lost without it" of the levels whose probe finds nothing.
missing_rows()
{
	local level package probe lost
	while IFS=$'\t' read -r level package probe lost; do
		case "$level" in '' | '#'*) continue ;; esac
		case "$levels" in *" $level "*) ;; *) continue ;; esac
		have "$probe" || printf '%s\t%s\n' "$package" "$lost"
	done <scripts/packages.txt
}

# The packages alone, in one line.
missing()
{
	missing_rows | cut -f 1 | sort -u | paste -sd' ' -
}

# One line for each part that is left out: what is lost, and the package that brings it.
say_left_out()
{
	missing_rows | while IFS=$'\t' read -r package lost; do
		printf '  %s (package %s)\n' "$lost" "$package"
	done
}

as_root=""
can_install()
{
	command -v apt-get >/dev/null 2>&1 || return 1
	[ "$(id -u)" = 0 ] && return 0
	command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null && as_root="sudo -n" && return 0
	return 1
}

apt()
{
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=2 \
		-o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120 "$@" \
		</dev/null >>"$log" 2>&1
}

install_all()
{
	local package
	local lists=/var/lib/apt/lists
	# Empty package lists know nothing: fetch them once.
	if [ -z "$(find $lists -maxdepth 1 -name '*Packages*' -print -quit 2>/dev/null)" ]; then
		apt update || return 1
		fresh=1
	fi
	# shellcheck disable=SC2086
	apt install --no-install-recommends $1 && return 0
	if [ "${fresh:-0}" = 0 ]; then
		apt update || return 1
		: >"$log"
		# shellcheck disable=SC2086
		apt install --no-install-recommends $1 && return 0
	fi
	# One that cannot be had must not keep the others away.
	grep -q -E 'Unable to locate|no installation candidate|unmet dep' "$log" || return 1
	for package in $1; do
		apt install --no-install-recommends "$package"
	done
	return 0
}

# meson of the distribution too old or not to be had: one of our own, in .venv
own_meson()
{
	local python
	python=$(command -v python3) || return 1
	if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
		echo "deps: no meson >= 1.0, and $python makes no virtual environment for one:" \
			"install meson, or python3-venv" >&2
		return 1
	fi
	echo "deps: no meson >= 1.0: making .venv with meson and ninja"
	if ! "$python" -m venv .venv >>"$log" 2>&1 ||
		! .venv/bin/pip install -q 'meson>=1.0' ninja >>"$log" 2>&1; then
		rm -rf .venv
		echo "deps: .venv: $(grep -i error "$log" | tail -n 1)" >&2
		return 1
	fi
	# shellcheck source=scripts/env.sh
	. scripts/env.sh
}

want=$(missing)
if [ $mode = list ]; then
	[ -z "$want" ] || echo "$want"
	exit 0
fi
[ -n "$want" ] || exit 0

log=$(mktemp "${TMPDIR:-/tmp}/tcpx-deps.XXXXXX") || exit 1
trap 'rm -f "$log"' EXIT
reason=""
advice="   ('make deps' installs them)"
if [ $mode = install ]; then
	advice=""
	if can_install; then
		echo "deps: installing $want"
		if ! install_all "$want"; then
			reason=$(grep -m1 -o -E 'Temporary failure.*|Could not .*|E: .*' "$log" ||
				echo 'no package source reachable')
			reason=" ($reason)"
		fi
	else
		reason=" (neither root nor password-less sudo with apt-get)"
	fi
fi
if have cmd:cc && { ! have cmd:meson || ! have cmd:ninja; }; then
	own_meson
fi
all=$levels
levels=" build "
need=$(missing)
if [ -n "$need" ]; then
	echo "deps: cannot build without $need$reason$advice" >&2
	exit 1
fi
levels=$all
want=$(missing)
if [ -n "$want" ]; then
	echo "deps: missing, left out$reason: $want$advice"
	say_left_out
fi
