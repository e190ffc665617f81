#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Python environment with one released NIXL, made once. Usage: scripts/nixl-venv.sh FOLDER [SPEC]
# SPEC: nixl-cu12==1.5.1 by default. Prints the environment's python. Exit 3: it cannot be had here,
# and stderr says why in one line. Several that ask for one folder at a time wait for the first.
set -eu
folder=$1
spec=${2:-nixl-cu12==1.5.1}
python=$folder/bin/python

no()
{
	echo "no $spec: $1" >&2
	exit 3
}

exec 9>"$folder.lock"
flock 9
if [ -f "$folder/.done" ] && [ "$(cat "$folder/.done")" = "$spec" ]; then
	echo "$python"
	exit 0
fi
base=
for each in python3 /usr/bin/python3; do
	if "$each" -c 'import ensurepip, venv' 2>/dev/null; then
		base=$each
		break
	fi
done
[ -n "$base" ] || no "no python3 with venv (package python3-venv)"
rm -rf "$folder"
log=$folder.log
"$base" -m venv "$folder" >"$log" 2>&1 || no "venv: $(tail -n 1 "$log")"
# Its declared dependency torch is only looked up by 1.4 and later.
pip="$python -m pip install -q --no-input --retries 1 --timeout 20"
if ! $pip --no-deps "$spec" >"$log" 2>&1 || ! $pip numpy >>"$log" 2>&1; then
	no "$(grep -i error "$log" | tail -n 1)"
fi
# Up to 1.3 it imports torch and asks for its Tensor alone.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
"$python" -c 'import torch' 2>/dev/null || printf 'class Tensor:\n    pass\n' >"$site/torch.py"
"$python" -c "import numpy" >>"$log" 2>&1 || no "$(tail -n 1 "$log")"
echo "$spec" >"$folder/.done"
echo "$python"
