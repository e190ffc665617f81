#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build folder to PREFIX, lets the loader know of it, and prints what the shell must know
# where compilers and programs do not find that place by themselves.
# Usage: PREFIX=/usr/local [DESTDIR=/stage] scripts/install.sh DIR
set -eu
dir=$1
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
here=$PWD
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

option()
{
	meson introspect "$dir" --buildoptions |
		python3 -c 'import json, sys
for row in json.load(sys.stdin):
	if row["name"] == sys.argv[1]:
		print(row["value"])' "$1"
}

prefix=${PREFIX:-/usr/local}
case $prefix in /*) ;; *) prefix=$here/$prefix ;; esac
while [ "$prefix" != / ] && [ "${prefix%/}" != "$prefix" ]; do prefix=${prefix%/}; done
# Compilers and the loader look into /usr/local/lib; below /usr each system has a folder of its own.
libdir=lib
if [ "$prefix" = /usr ]; then
	triplet=$(${CC:-cc} -print-multiarch 2>/dev/null || true)
	if [ -n "$triplet" ]; then
		libdir=lib/$triplet
	elif [ -d /usr/lib64 ]; then
		libdir=lib64
	fi
fi
if [ "$(option prefix)" != "$prefix" ] || [ "$(option libdir)" != "$libdir" ]; then
	meson configure "$dir" "-Dprefix=$prefix" "-Dlibdir=$libdir" >/dev/null
	if ! ninja -C "$dir" >"$dir/build.log" 2>&1; then
		tail -n 20 "$dir/build.log" >&2
		echo "install: build failed: $dir/build.log" >&2
		exit 1
	fi
fi
if ! said=$(meson install -C "$dir" --no-rebuild --quiet 2>&1); then
	printf '%s\ninstall: nothing is usable at %s\n' "$said" "${DESTDIR:-}$prefix" >&2
	exit 1
fi
echo "installed: ${DESTDIR:-}$prefix"
[ -z "${DESTDIR:-}" ] || exit 0 # a stage: only where it is unpacked can it be found

lib=$prefix/$libdir
PATH=$PATH:/usr/sbin:/sbin # ldconfig
[ "$(id -u)" != 0 ] || ldconfig 2>/dev/null || true

lines=""
say()
{
	lines="$lines  export $1=$(printf %q "$2")\${$1:+:\$$1}"$'\n'
}
if command -v pkg-config >/dev/null; then
	[ "$(pkg-config --variable=libdir libtcpx 2>/dev/null)" = "$lib" ] ||
		say PKG_CONFIG_PATH "$lib/pkgconfig"
else
	echo "compilers find it by pkg-config, which is not here (package pkg-config)"
	case $prefix in /usr | /usr/local) ;; *) say PKG_CONFIG_PATH "$lib/pkgconfig" ;; esac
fi
loaded=$(ldconfig -p 2>/dev/null | sed -n 's/^[[:space:]]*libtcpx\.so\.0 .*=> //p' | head -n 1)
if [ "$loaded" != "$lib/libtcpx.so.0" ]; then
	case ":${LD_LIBRARY_PATH:-}:" in *":$lib:"*) ;; *) say LD_LIBRARY_PATH "$lib" ;; esac
fi
case ":$PATH:" in *":$prefix/bin:"*) ;; *) say PATH "$prefix/bin" ;; esac
[ -z "$lines" ] || printf 'programs, compilers and the shell find it with:\n%s' "$lines"
case $lib in *' '*)
	echo "and for the space: eval \"cc PROGRAM.c \$(pkg-config --cflags --libs libtcpx)\""
	;;
esac
