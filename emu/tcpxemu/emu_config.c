/* SPDX-License-Identifier: Apache-2.0 */
/* The environment: the original's variables with their names and quirks, and the emulator's own. */
#include "emu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define G "NCCL_GPUDIRECTTCPX_"

struct emu_config emu_config;

/* A whole number in [least, most]; what is none, or outside, leaves the default, as there. */
static long long number(const char *name, long long preset, long long least, long long most)
{
	const char *text = getenv(name);
	char *end;
	long long value;

	if (!text || !*text)
		return preset;
	errno = 0;
	value = strtoll(text, &end, 0);
	return errno || *end || value < least || value > most ? preset : value;
}

/* The index of the variable's value in words; its default is the first; -1: none of them. */
static int word(const char *name, const char *const *words)
{
	const char *text = getenv(name);

	if (!text || !*text)
		return 0;
	for (int i = 0; words[i]; i++) {
		size_t len = strlen(words[i]);

		/* "rand" stands for "rand:7" as well */
		if (!strncmp(text, words[i], len) && (!text[len] || text[len] == ':'))
			return i;
	}
	EMU_WARN("TCPXEMU: %s=%s is not known", name, text);
	return -1;
}

static const char *behind_colon(const char *name)
{
	const char *text = getenv(name);

	text = text ? strchr(text, ':') : NULL;
	return text ? text + 1 : "";
}

/* %p stands for the process. */
static void path(char *out, size_t size, const char *name)
{
	const char *text = getenv(name);
	size_t at = 0;

	out[0] = 0;
	for (; text && *text && at + 1 < size; text++) {
		if (text[0] == '%' && text[1] == 'p') {
			at += (size_t)snprintf(out + at, size - at, "%d", (int)getpid());
			text++;
		} else {
			out[at++] = *text;
			out[at] = 0;
		}
	}
	if (at >= size)
		out[0] = 0; /* cut short is another path */
}

static void read_original(struct emu_config *config)
{
	const char *algorithm = getenv(G "SCHED_ALG");
	unsigned settle =
		(unsigned)number(G "PROGRAM_FLOW_STEERING_WAIT_MICROS", 5000000, 1, 2000000000);

	config->realtime = number("TCPXEMU_REALTIME", 0, 0, 1);
	config->settle_us = config->realtime ? settle : settle / 1000;
	config->step_us = config->realtime ? 100000 : 100;
	config->chunk = (uint32_t)number("NCCL_DYNAMIC_CHUNK_SIZE", 0, 0, 1 << 30);
	config->threads = (int)number("NCCL_SOCKET_NTHREADS", 1, 1, EMU_THREADS);
	config->socks = (int)number("NCCL_NSOCKS_PERTHREAD", 1, 1, EMU_SOCKS) * config->threads;
	if (config->socks > EMU_SOCKS)
		config->socks = EMU_SOCKS / config->threads * config->threads;
	if (!config->socks) /* more threads than sockets: the original divides by them too */
		config->socks = config->threads = EMU_SOCKS;
	config->retries = (int)number(G "CONNECTION_RETRY", 3, 1, 100);
	config->strategy = (int)number(G "FLOW_STEERING_STRATEGY", 3, 0, 100);
	config->enabled = number(G "SOCKET_ENABLE", 1, 0, 1);
	config->recv_sync = number(G "RECV_SYNC", 0, 0, 1);
	config->zero_copy[EMU_HOST] = (uint32_t)number("NCCL_MIN_ZCOPY_SIZE", 0, 0, 1 << 30);
	config->katy = algorithm && !strcmp(algorithm, "KATY");
}

/* Behind the colon, else where the original looks. */
static int read_steer_dir(struct emu_config *config)
{
	const char *dir = behind_colon("TCPXEMU_STEER"), *prefix = getenv(G "UNIX_CLIENT_PREFIX");

	if (!*dir)
		dir = prefix && *prefix ? prefix : "/tmp";
	return snprintf(config->steer_dir, sizeof(config->steer_dir), "%s", dir) >=
			       (int)sizeof(config->steer_dir)
		       ? -1
		       : 0;
}

static int read_own(struct emu_config *config)
{
	static const char *const modes[] = {"cpu", "cuda-host-bounce", "cuda-dev-bounce", NULL};
	static const char *const frags[] = {"page", "mtu1460", "rand", NULL};
	static const char *const steers[] = {"strict", "off", "rxdm", NULL};
	static const char *const leaks[] = {"real", "fixed", NULL};
	static const char *const fatals[] = {"exit", "rc", "abort", NULL};
	static const char *const progress[] = {"helpers", "calls", NULL};
	int moves = word("TCPXEMU_PROGRESS", progress);
	int mode = word("TCPXEMU_MEM", modes), frag = word("TCPXEMU_FRAG", frags);
	int steer = word("TCPXEMU_STEER", steers), leak = word("TCPXEMU_LEAK", leaks);
	int fatal = word("TCPXEMU_FATAL", fatals);

	if (mode < 0 || frag < 0 || steer < 0 || leak < 0 || fatal < 0 || moves < 0)
		return -1;
	config->calls = moves == 1;
	config->mode = (enum emu_mode)mode;
	config->frag = (enum emu_frag)frag;
	config->steer = (enum emu_steer)steer;
	config->fatal = (enum emu_fatal)fatal;
	config->leak = leak == 0;
	config->seed = (uint64_t)number("TCPXEMU_SEED", 1, 0, 1LL << 62);
	if (frag == EMU_FRAG_RANDOM && *behind_colon("TCPXEMU_FRAG"))
		config->seed = strtoull(behind_colon("TCPXEMU_FRAG"), NULL, 0);
	if (steer == EMU_STEER_RXDM && read_steer_dir(config))
		return -1;
	config->shuffle = number("TCPXEMU_SHUFFLE", 1, 0, 1);
	/* Pages that only the device touches are poisoned on demand: it costs a call a page. */
	config->poison = number("TCPXEMU_POISON", mode != EMU_MEM_DEV_BOUNCE, 0, 1);
	config->zero_copy[EMU_CUDA] = (uint32_t)number("TCPXEMU_ZEROCOPY", 0, 0, 1);
	config->no_sigpipe = number("TCPXEMU_NOSIGPIPE", 0, 0, 1);
	config->import_us = (unsigned)number("TCPXEMU_IMPORT_US", 10000, 0, 100000000);
	config->pool_bytes = (size_t)number("TCPXEMU_POOL_BYTES", 64 << 20, EMU_PAGE, 1LL << 32);
	path(config->stats, sizeof(config->stats), "TCPXEMU_STATS");
	path(config->packets, sizeof(config->packets), "TCPXEMU_DEVMEM_DIR");
	return emu_fault_read(getenv("TCPXEMU_FAULT"));
}

int emu_config_read(void)
{
	memset(&emu_config, 0, sizeof(emu_config));
	read_original(&emu_config);
	if (read_own(&emu_config))
		return -1;
	if (emu_topo_read(getenv("TCPXEMU_TOPO")))
		return -1;
	return emu_topo_choose(getenv(G "SOCKET_IFNAME"), getenv(G "CTRL_DEV"));
}
