/* SPDX-License-Identifier: Apache-2.0 */
/* The options of 'tcpx perf', and the path that is measured. */
#ifndef TOOLS_PERF_PLAN_H
#define TOOLS_PERF_PLAN_H

#include "ceiling.h"
#include "cli_plugin.h"
#include "cli_values.h"
#include "perf_row.h"

enum perf_transport {
	PERF_TRANSPORT_TCP,
	PERF_TRANSPORT_LOCAL,
	PERF_TRANSPORT_AUTO,
	PERF_TRANSPORT_PLUGIN,
	PERF_TRANSPORT_GPUDIRECT,
};
#define PERF_TRANSPORTS "tcp|local|auto|plugin|gpudirect"
#define PERF_UNITS "GB|Gbit" /* a second; of 10^9 */
#define PERF_OPS "write|read|send|notify|latency|pingpong"

enum perf_unit { PERF_UNIT_GB, PERF_UNIT_GBIT };

/* The subcommand's options; offsets of the option table point in here. */
struct perf_options {
	int loopback, reverse, ipv4, ipv6, busy_poll, bidir, no_check, inject_fault, ceiling,
		perf_lines, insecure;
	uint64_t op;		  /* index in PERF_OPS */
	uint64_t mem, remote_mem; /* for perf_place_of() */
	struct cli_list sizes, channels, chunks, transports, units;
	struct cli_plugin plugin;
	uint64_t iters, batch, depth, working_set, seed, workers,
		port;			   /* port: 0, by host or default */
	double seconds, timeout, interval; /* interval: 0, none */
	const char *bind, *json, *csv, *key, *peer_key;
	/* not from options */
	const char *host; /* "host[:port]"; NULL with loopback */
	int64_t deadline_ns;
};

/* The memory of one end, known after connecting. */
struct perf_end_memory {
	struct perf_place place; /* the device is the ordinal there */
	char pci[16], name[64];	 /* of a GPU, else empty */
	int numa;		 /* NUMA node; -1: unknown */
	uint8_t uuid[CLI_GPU_UUID_BYTES];
};

/* One path to the other end: a combination of --transport, --channels and --chunk. */
struct perf_path {
	enum perf_transport want;
	uint32_t want_channels, want_chunk; /* 0: default */
	/* the values in use */
	char transport[16], copy[16], congestion[16], auth[16], address[64];
	uint32_t channels, chunk_bytes;
	uint32_t message_channels; /* 0: no plugin */
	char unpack[12];	   /* how this end unpacks messages; "": it does not */
	char relay[80];		   /* by perf_channels_relay() */
	struct perf_end_memory local, remote;
	char version[32], host[64];
};

/* Whether bulk data goes as messages of a plugin. */
static inline int perf_by_plugin(enum perf_transport want)
{
	return want == PERF_TRANSPORT_PLUGIN || want == PERF_TRANSPORT_GPUDIRECT;
}

/* An option that is not given counts as one value. */
static inline uint32_t perf_list_count(const struct cli_list *list)
{
	return list->count ? list->count : 1;
}

static inline uint32_t perf_path_count(const struct perf_options *o)
{
	return o->transports.count * perf_list_count(&o->channels) * perf_list_count(&o->chunks);
}

/* Runs the measurement and returns an exit code. */
int perf_run(const struct perf_options *options);

#endif
