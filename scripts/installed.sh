#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Says where a build folder was installed, and what the shell must know when that place is not one
# where compilers and programs look by themselves. Usage: scripts/installed.sh DIR
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

option()
{
	meson introspect "$1" --buildoptions |
		python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$2"
}

prefix=$(option "$1" prefix)
lib=$prefix/$(option "$1" libdir)
echo "installed: $prefix"
case $prefix in /usr | /usr/local) exit 0 ;; esac
printf 'compilers and programs find it with:\n'
printf '  export PKG_CONFIG_PATH=%s/pkgconfig\n  export LD_LIBRARY_PATH=%s\n' "$lib" "$lib"
