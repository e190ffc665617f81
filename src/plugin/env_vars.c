/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's variables: ranges, defaults, and the effect of a wrong value. */
#include <stdlib.h>
#include <string.h>

#include "plugin/env.h"

#define G "NCCL_GPUDIRECTTCPX_"
#define ANY 0, UINT64_MAX

static const struct gpudirect_var vars[] = {
	{"NCCL_DYNAMIC_CHUNK_SIZE", GPUDIRECT_NUMBER, 1, INT32_MAX, "0", NULL,
	 "bytes of a chunk, the same on both ends and at least TCPX_MESSAGE_BYTES; without it "
	 "every "
	 "transfer hangs, and smaller than a message it leaks pages until everything hangs"},
	{"NCCL_NSOCKS_PERTHREAD", GPUDIRECT_NUMBER, 1, 8, "1", NULL,
	 "sockets of a thread; at most 8 over all threads"},
	{"NCCL_SOCKET_NTHREADS", GPUDIRECT_NUMBER, 1, 16, "1", NULL, "threads of a comm"},
	{G "SOCKET_IFNAME", GPUDIRECT_NICS, ANY, "", NULL,
	 "NICs for data, as prefixes unless \"=\" precedes them; they are numbered by the order of "
	 "their names, not of the list"},
	{G "CTRL_DEV", GPUDIRECT_TEXT, ANY, "", NULL,
	 "NIC of the control sockets; unset: that of the data; a wrong name is not reported"},
	{G "UNIX_CLIENT_PREFIX", GPUDIRECT_TEXT, ANY, "/tmp", NULL,
	 "folder of RxDM's sockets; RxDM creates them in /run/tcpx"},
	{G "TX_BINDINGS", GPUDIRECT_BINDINGS, ANY, "", NULL,
	 "CPUs of the sending threads by NIC; each range needs a \"-\", or the plugin divides by "
	 "0"},
	{G "RX_BINDINGS", GPUDIRECT_BINDINGS, ANY, "", NULL, "CPUs of the receiving threads"},
	{G "PROGRAM_FLOW_STEERING_WAIT_MICROS", GPUDIRECT_NUMBER, 0, 60000000, "5000000", NULL,
	 "how long an acceptor waits until its rules are active; 50000 is enough on A3 hosts"},
	{G "CONNECTION_RETRY", GPUDIRECT_NUMBER, 1, 1000, "3", NULL, "attempts to set up a socket"},
	{G "FLOW_STEERING_STRATEGY", GPUDIRECT_NUMBER, ANY, "3", "3",
	 "3 is RxDM; with another value the plugin does not start"},
	{G "SOCKET_ENABLE", GPUDIRECT_NUMBER, 0, 1, "1", "1", "with 0 the plugin does not start"},
	{G "SOCKET_FAMILY", GPUDIRECT_TEXT, ANY, "AF_INET", "AF_INET",
	 "RxDM steers TCP over IPv4 only"},
	{"NCCL_USE_DMA_BUF", GPUDIRECT_NUMBER, 0, 1, "1", "1",
	 "with 0 no GPU memory can be registered"},
	{"NCCL_INLINE_THRESHOLD", GPUDIRECT_NUMBER, 0, 2048, "0", "0",
	 "payload on the control socket, which cannot end in GPU memory"},
	{"NCCL_MIN_ZCOPY_SIZE", GPUDIRECT_NUMBER, 0, INT32_MAX, "0", NULL,
	 "host memory of at least that size is sent without a copy; 0: never"},
	{G "RECV_SYNC", GPUDIRECT_NUMBER, 0, 1, "0", NULL,
	 "a rendezvous for each receive; the same on both ends"},
	{G "FORCE_ACK", GPUDIRECT_NUMBER, 0, 1, "0", NULL,
	 "acknowledge every drained receive at once"},
	{G "TX_COMPLETION_NANOSLEEP", GPUDIRECT_NUMBER, 0, 1000000000, "0", NULL,
	 "sleep of a sending thread that finds no completion"},
	{G "SPINWAIT_CONNECT", GPUDIRECT_NUMBER, 0, 1, "1", NULL, "calls wait for the connection"},
	{G "CUDA_USE_PRIMARY_CTX", GPUDIRECT_NUMBER, 0, 1, "1", "1",
	 "with 0 the plugin has a context of its own, in which the library's memory is unknown"},
	{"NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT", GPUDIRECT_NUMBER, 0, 1, "1", "1",
	 "with 0 the page pool comes from a file that RxDM no longer writes, and receives are "
	 "lost"},
	{G "REPORT_LIFECYCLE", GPUDIRECT_NUMBER, 0, 1, "0", "0",
	 "with 1 RxDM exits when the last process disconnects"},
	{G "PROGRAM_CONNECT_TIMEOUT_MS", GPUDIRECT_UNREAD, ANY, "", NULL, "nothing"},
	{G "RX_COMPLETION_NANOSLEEP", GPUDIRECT_UNREAD, ANY, "", NULL, "nothing"},
	{G "DEBUG_LEVEL", GPUDIRECT_UNREAD, ANY, "", NULL, "nothing; NCCL_DEBUG filters the log"},
	{G "MIN_ZCOPY_SIZE", GPUDIRECT_UNREAD, ANY, "", NULL, "nothing; it is NCCL_MIN_ZCOPY_SIZE"},
};

const struct gpudirect_var *gpudirect_var(unsigned index)
{
	return index < sizeof(vars) / sizeof(*vars) ? &vars[index] : NULL;
}

uint64_t gpudirect_env_number(gpudirect_get_fn get, void *arg, const char *name)
{
	const struct gpudirect_var *var;
	const char *text = get(arg, name);
	unsigned long long value;
	char *end;

	for (unsigned i = 0; (var = gpudirect_var(i)); i++) {
		if (strcmp(var->name, name))
			continue;
		value = text ? strtoull(text, &end, 0) : 0;
		if (text && end != text && !*end && value >= var->min && value <= var->max)
			return value;
		return strtoull(var->without, NULL, 0);
	}
	return 0;
}
