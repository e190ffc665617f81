#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the README's commands, as they are typed, on a fresh clone in a bare Debian: debootstrap,
# git and make, no more.
# Usage: scripts/try-fresh.sh [--root DIR] [--keep] [SUITE] [COMMAND...]    needs root, debootstrap
# SUITE: bookworm (the default), trixie, bullseye. Default: scripts/try-readme.sh, then make test.
# The mirror and the package manager's settings are this machine's.
set -eu
cd "$(dirname "$0")/.."
root=""
keep=0
while [ $# -gt 0 ]; do
	case "$1" in
	--root) root=$2 && keep=1 && shift 2 ;;
	--keep) keep=1 && shift ;;
	-*) sed -n '3,7p' "$0" && exit 2 ;;
	*) break ;;
	esac
done
suite=bookworm
case "${1:-}" in
bookworm | trixie | bullseye) suite=$1 && shift ;;
esac
[ "$(id -u)" = 0 ] || { echo "try-fresh: needs root (mounts, debootstrap)" >&2 && exit 1; }
command -v debootstrap >/dev/null || { echo "try-fresh: install debootstrap" >&2 && exit 1; }
[ -n "$root" ] || root=$(mktemp -d "${TMPDIR:-/tmp}/tcpx-fresh.XXXXXX")
mkdir -p "$root" && chmod 755 "$root" # it will be /, for every user

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{sources,list} 2>/dev/null |
	sed -nE 's/^(URIs:|deb( \[[^]]*\])?) +([^ ]+\/debian\/?)( .*)?$/\3/p' | head -n 1)

mounted=""
cleanup()
{
	local place
	for place in $mounted; do umount -l "$place" || true; done
	mounted=""
	[ $keep = 1 ] || rm -rf --one-file-system "$root"
}
trap cleanup EXIT

if [ ! -x "$root/bin/bash" ]; then
	echo "try-fresh: making a bare root"
	debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 ||
		{ tail -n 5 "$root.log" >&2 && exit 1; }
	rm -f "$root.log"
	# The package manager's settings, and what it needs to reach its source.
	rm -f "$root/etc/apt/sources.list"
	for place in /etc/apt /usr/share/keyrings /etc/ssl/certs; do
		[ -d "$place" ] || continue
		mkdir -p "$root$place" && cp -a "$place/." "$root$place/"
	done
	ours=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	find "$root/etc/apt" -name '*.sources' -o -name '*.list' | while read -r file; do
		sed -i "s/\\b$ours\\b/$suite/g" "$file"
	done
fi
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
	[ ! -f "$file" ] || cp -L "$file" "$root$file"
done
# Whom this machine trusts, in a file that no package of the root writes.
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/fresh.crt"
# A root that is a mount point: "ip netns exec" changes how / is shared.
mount --bind "$root" "$root"
mounted="$root"
for place in proc sys dev dev/pts dev/shm; do
	mkdir -p "$root/$place"
	mount --bind "/$place" "$root/$place"
	mounted="$root/$place $mounted"
done

# The root becomes / of a mount namespace of its own: a process that chroot put there could not make
# user namespaces, which tests need.
inside()
{
	# Only the proxy settings of our environment; no terminal, no input.
	# shellcheck disable=SC2016 # expanded by the shell that is started
	env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
		${PIP_INDEX_URL:+"PIP_INDEX_URL=$PIP_INDEX_URL"} \
		PIP_CERT=/etc/ssl/fresh.crt SSL_CERT_FILE=/etc/ssl/fresh.crt \
		${STRICT_SKIPS:+"STRICT_SKIPS=$STRICT_SKIPS"} \
		unshare --mount --propagation private /bin/bash -c '
			cd "$1" && pivot_root . . && umount -l . && exec /bin/bash -c "$2"' \
		inside "$root" "$1" </dev/null
}

inside 'export DEBIAN_FRONTEND=noninteractive
	command -v git >/dev/null && command -v make >/dev/null && exit 0
	apt-get -q update && apt-get -q -y install --no-install-recommends git make' >/dev/null
# What is committed, as a fresh clone; a bundle needs no path into this tree.
git bundle create -q "$root/tmp/repo.bundle" HEAD
inside 'rm -rf /srv/tcpx && git init -q /srv/tcpx && cd /srv/tcpx &&
	git fetch -q /tmp/repo.bundle HEAD && git checkout -q FETCH_HEAD'
[ $# -gt 0 ] || set -- 'scripts/try-readme.sh' 'make test'
for command in "$@"; do
	echo "try-fresh: $command"
	inside "cd /srv/tcpx && $command"
done
echo "try-fresh: all of it passed in a bare $suite"
