#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The README's commands, as a newcomer types them, on a machine that has git and make and no more.
# It installs to /usr/local: scripts/try-fresh.sh runs it in a root of its own. Usage: (there)
set -eu -o pipefail
cd "$(dirname "$0")/.."
here=$PWD
[ "$here" = /srv/tcpx ] || { echo "try-readme: run it by scripts/try-fresh.sh" >&2 && exit 2; }

say()
{
	printf '\n$ %s\n' "$*"
}

fail()
{
	echo "try-readme: $*" >&2
	exit 1
}

# Nothing is there, and make installs nothing: it names what it wants.
for target in build install; do
	say make $target
	! make $target || fail "make $target passed without a compiler"
done
command -v cc >/dev/null && fail "make installed packages"

for target in demo demo-tcpx demo-node demo-trace demo-compat build; do
	say make $target
	make $target
done
[ -f build/plugins/nixl/libplugin_TCPX.so ] || fail "make demo built no NIXL plugin"

say "make install; cc hello_write.c \$(pkg-config --cflags --libs libtcpx)"
make install
cd "$(mktemp -d)"
cp "$here/examples/hello_write.c" .
# shellcheck disable=SC2046
cc hello_write.c $(pkg-config --cflags --libs libtcpx) && ./a.out
tcpx perf --loopback --size 64K:1M
tcpx info >/dev/null && tcpx info --env >/dev/null
tcpx topo
tcpx doctor || [ $? = 3 ]

for prefix in "$HOME/.local" "/opt/my place"; do
	say "make install PREFIX=\"$prefix\", and the lines that it prints"
	make -C "$here" install PREFIX="$prefix" | tee lines
	(
		eval "$(grep export lines)"
		eval "cc hello_write.c -o found $(pkg-config --cflags --libs libtcpx)" && ./found
		[ "$(command -v tcpx)" = "$prefix/bin/tcpx" ] && tcpx version
	)
done
say make install DESTDIR=/tmp/stage
make -C "$here" install DESTDIR=/tmp/stage PREFIX=/usr/local
[ -e /tmp/stage/usr/local/lib/libtcpx.so ] || fail "nothing is in the stage"

say make, in a folder with a space
cp -r "$here" "/srv/a checkout"
(cd "/srv/a checkout" && rm -rf build && make && build/tcpx perf --loopback --size 64K)

say make deps, make site
make -C "$here" deps
make -C "$here" site
[ -f "$here/build/site/index.html" ] || fail "make site made no site"
say 'tcpx serve here, tcpx perf HOST:PORT there, with TCPX_KEY_FILE on both'
ip netns add fresh-a
ip netns add fresh-b
trap 'ip netns del fresh-a; ip netns del fresh-b' EXIT
ip -n fresh-a link add eth0 type veth peer name eth0 netns fresh-b
for host in a b; do
	ip -n fresh-$host link set lo up
	ip -n fresh-$host link set eth0 up
done
ip -n fresh-a addr add 10.78.0.1/24 dev eth0
ip -n fresh-b addr add 10.78.0.2/24 dev eth0
tcpx key new key
export TCPX_KEY_FILE=$PWD/key
mkfifo ready
ip netns exec fresh-b tcpx serve >ready &
server=$!
read -r _ address <ready
ip netns exec fresh-a tcpx perf "$address" --op read --size 64K:16M
ip netns exec fresh-a tcpx perf "$address" --op read --size 64K:16M --json - >/dev/null
kill "$server"
wait "$server"
echo "try-readme: every command did what the README says"
