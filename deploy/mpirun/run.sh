#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One process a host by Open MPI. Usage: run.sh HOSTFILE node|mesh [OPTION...]
# NICS=eth1,eth2,eth3,eth4: the interfaces between the hosts; TCPX_* variables go to all ranks.
set -eu
if [ $# -lt 2 ]; then
	sed -n '3,4s/^# //p' "$0" >&2
	exit 2
fi
hostfile=$1
command=$2
shift 2
pass=()
for name in "${!TCPX_@}" "${!NCCL_@}" LD_LIBRARY_PATH; do
	if [ -n "${!name-}" ]; then pass+=(-x "$name"); fi
done
exec mpirun --hostfile "$hostfile" --map-by node --bind-to none "${pass[@]+"${pass[@]}"}" \
	tcpx "$command" --bind "${NICS:-eth1,eth2,eth3,eth4}" "$@"
