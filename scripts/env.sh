# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts: which meson, ninja and python to use.

if [ -x .venv/bin/meson ]; then
	PATH="$PWD/.venv/bin:$PATH"
	export PATH
fi

# Whether the meson on the path is 1.0 or newer.
meson_ok()
{
	local version
	version=$(meson --version 2>/dev/null) || return 1
	[ "${version%%.*}" -ge 1 ] 2>/dev/null
}

# Prints the first python3 that has the modules a,b; the one on the path may not be the system's.
python_with()
{
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c "import $1" >/dev/null 2>&1 && echo "$python" && return 0
	done
	return 1
}
