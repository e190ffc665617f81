/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx perf: its options and their conflicts. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/config.h"
#include "ceiling_gpu.h"
#include "cli_json.h"
#include "cli_output.h"
#include "commands.h"
#include "perf_chunks.h"
#include "perf_host.h"
#include "perf_memory.h"
#include "perf_plan.h"

#define AT(field) offsetof(struct perf_options, field)
#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define TIB (1ull << 40)

static const struct cli_option options[] = {
	{"loopback", NULL, CLI_RULE_FLAG, AT(loopback), NULL, 0,
	 "serve in a process of its own; rows of tcp and local", .group = "Path"},
	{"port",
	 "P",
	 {CLI_COUNT, 1, 65535},
	 AT(port),
	 NULL,
	 0,
	 "port of HOST (default: 20000)",
	 .letter = 'p'},
	{"ipv4", NULL, CLI_RULE_FLAG, AT(ipv4), NULL, 0, "use an IPv4 address of HOST",
	 .letter = '4'},
	{"ipv6", NULL, CLI_RULE_FLAG, AT(ipv6), NULL, 0, "use an IPv6 address of HOST",
	 .letter = '6'},
	{"bind", "ADDR|IF[,...]", CLI_RULE_TEXT, AT(bind), NULL, 0,
	 "go by these only (default: direct routes)"},
	{"transport",
	 "LIST",
	 {CLI_CHOICE_LIST, 0, 0, PERF_TRANSPORTS},
	 AT(transports),
	 "auto",
	 0,
	 "tcp, local, auto, plugin, gpudirect; a row each"},
	{"channels",
	 "LIST",
	 {CLI_COUNT_LIST, 1, 64},
	 AT(channels),
	 NULL,
	 0,
	 "channels to the peer; one row for each number",
	 .letter = 'P'},
	{"chunk",
	 "LIST",
	 {CLI_BYTES_LIST, 4 * KIB, 16 * MIB},
	 AT(chunks),
	 NULL,
	 0,
	 "bytes of a chunk; one row for each size"},
	{"workers", "N", {CLI_COUNT, 1, 64}, AT(workers), NULL, 0, "threads of the library"},
	{"busy-poll", NULL, CLI_RULE_FLAG, AT(busy_poll), NULL, 0, "spin instead of sleeping"},
	{"op",
	 "OP",
	 {CLI_CHOICE, 0, 0, PERF_OPS},
	 AT(op),
	 "write",
	 0,
	 "write, read, send, notify, latency, pingpong",
	 .group = "Transfers"},
	{"reverse", NULL, CLI_RULE_FLAG, AT(reverse), NULL, 0, "the other end sends: --op read",
	 .letter = 'R'},
	{"size",
	 "LIST",
	 {CLI_BYTES_LIST, 1, TIB},
	 AT(sizes),
	 NULL,
	 CLI_ENV(PERF_SIZE),
	 "64M; 1M,4M; 64K:256M (doubling); 64K:256M:x4"},
	{"iters",
	 "N",
	 {CLI_COUNT, 1, 1000000000},
	 AT(iters),
	 NULL,
	 CLI_ENV(PERF_ITERS),
	 "transfers of a row instead of --time",
	 .letter = 'n'},
	{"time",
	 "S",
	 {CLI_SECONDS, 0, 3600},
	 AT(seconds),
	 "1",
	 0,
	 "seconds of a row, checks included",
	 .letter = 't'},
	{"batch",
	 "N",
	 {CLI_COUNT, 1, 1000000},
	 AT(batch),
	 "1",
	 0,
	 "split each transfer into N random pieces"},
	{"depth", "N", {CLI_COUNT, 1, 1024}, AT(depth), "8", 0, "transfers in flight"},
	{"working-set",
	 "BYTES",
	 {CLI_BYTES, 4 * KIB, TIB},
	 AT(working_set),
	 NULL,
	 0,
	 "memory per side [256M; latency 1M]"},
	{"mem",
	 "KIND",
	 {CLI_CHOICE, 0, 0, PERF_MEMS},
	 AT(mem),
	 "host",
	 0,
	 "memory here: host, cuda[:N]"},
	{"remote-mem",
	 "KIND",
	 {CLI_CHOICE, 0, 0, PERF_MEMS},
	 AT(remote_mem),
	 "host",
	 0,
	 "memory at the other end"},
	{"bidir", NULL, CLI_RULE_FLAG, AT(bidir), NULL, 0,
	 "both directions at once, the sum is shown"},
	{"timeout",
	 "S",
	 {CLI_SECONDS, 0, 86400},
	 AT(timeout),
	 NULL,
	 0,
	 "time limit of the run, then exit 124"},
	{"ceiling", NULL, CLI_RULE_FLAG, AT(ceiling), NULL, 0,
	 "measure plain sockets as well, show % of them", .group = "Checks"},
	{"no-check", NULL, CLI_RULE_FLAG, AT(no_check), NULL, 0,
	 "do not compare received bytes; reuse buffers"},
	{"inject-fault", NULL, CLI_RULE_FLAG, AT(inject_fault), NULL, 0,
	 "flip a byte: the exit must be 4"},
	{"seed",
	 "N",
	 {CLI_COUNT, 0, UINT32_MAX},
	 AT(seed),
	 "1",
	 0,
	 "seed of the pattern and of random places"},
	CLI_PLUGIN_OPTIONS(AT),
	{"key", "FILE", CLI_RULE_TEXT, AT(key), NULL, 0, "shared key file (default: TCPX_KEY_FILE)",
	 .group = "Trust"},
	{"peer-key", "HEX", CLI_RULE_TEXT, AT(peer_key), NULL, 0,
	 "accept only the serve that proves this key"},
	{"insecure", NULL, CLI_RULE_FLAG, AT(insecure), NULL, 0,
	 "go beyond loopback without a key"},
	{"json", "FILE", CLI_RULE_TEXT, AT(json), NULL, 0, "write the results as JSON",
	 .letter = 'J', .implied = "-", .group = "Output"},
	{"csv", "FILE", CLI_RULE_TEXT, AT(csv), NULL, 0, "write the rows as comma-separated values",
	 .implied = "-"},
	{"interval",
	 "S",
	 {CLI_SECONDS, 0, 3600},
	 AT(interval),
	 NULL,
	 0,
	 "a line of the rate every S seconds of a row",
	 .letter = 'i'},
	{"units",
	 "LIST",
	 {CLI_CHOICE_LIST, 0, 0, PERF_UNITS},
	 AT(units),
	 "GB",
	 0,
	 "rates in GB, Gbit, or both: GB,Gbit"},
	{"perf-lines", NULL, CLI_RULE_FLAG, AT(perf_lines), NULL, CLI_ENV(PERF),
	 "also lines '[PERF] key=value', for old scripts"},
};

/* Sets defaults that depend on the operation. */
static void set_sizes(struct perf_options *o)
{
	if (!o->working_set)
		o->working_set = perf_one_way(o->op) ? MIB : 256 * MIB;
	if (o->sizes.count)
		return;
	if (perf_one_way(o->op)) {
		o->sizes.values[o->sizes.count++] = 8;
		return;
	}
	for (uint64_t size = 64 * KIB; size <= 256 * MIB; size *= 4)
		o->sizes.values[o->sizes.count++] = size;
}

/* TCPX_LOCAL=0 only sets the default of --transport. It is removed from the environment before
 * the library reads it. */
static int local_is_off(void)
{
	const char *text = getenv("TCPX_LOCAL");
	uint64_t value;

	if (!text || config_parse(config_row(CONFIG_LOCAL), 0, text, &value) || value)
		return 0;
	unsetenv("TCPX_LOCAL");
	return 1;
}

/* Applies options that change others. */
static void perf_settle(const struct cli_command *command, int no_local, struct perf_options *o)
{
	int chosen = cli_given(command, "transport");

	if (!chosen && (no_local || o->loopback))
		o->transports.values[0] = PERF_TRANSPORT_TCP;
	if (!chosen && !no_local && o->loopback) /* auto would measure shared memory only */
		o->transports.values[o->transports.count++] = PERF_TRANSPORT_LOCAL;
	if (cli_given(command, "time") && !cli_given(command, "iters"))
		o->iters = 0; /* TCPX_PERF_ITERS */
	if (o->loopback && !o->bind)
		o->bind = o->ipv6 ? "::1" : "127.0.0.1"; /* also if TCPX_BIND is set */
	if (o->reverse && o->op == PERF_OP_WRITE)
		o->op = PERF_OP_READ;
	set_sizes(o);
}

static int uses(const struct perf_options *o, enum perf_transport want)
{
	for (uint32_t i = 0; i < o->transports.count; i++)
		if (o->transports.values[i] == want)
			return 1;
	return 0;
}

/* Must be called before anything reads the environment. */
static int prepare_plugin(const struct cli_command *command, const struct perf_options *o)
{
	int gpudirect = uses(o, PERF_TRANSPORT_GPUDIRECT), plugin = uses(o, PERF_TRANSPORT_PLUGIN);
	int gpus = perf_place_of(o->mem, 0).kind == TCPX_MEM_CUDA;
	uint64_t chunk = 0;
	int rc = cli_plugin_usage(command, gpudirect || plugin, gpudirect);

	if (rc != CLI_GO || (!gpudirect && !plugin))
		return rc;
	if (gpudirect && plugin)
		return cli_usage("--transport plugin and gpudirect want different environments; "
				 "run one after the other");
	gpus += perf_place_of(o->remote_mem, 0).kind == TCPX_MEM_CUDA;
	if (gpudirect && gpus < 2)
		return cli_usage("--transport gpudirect carries GPU memory: give --mem cuda and "
				 "--remote-mem cuda; plugin is for host memory");
	if (gpudirect && cli_given(command, "gpu") &&
	    o->plugin.gpu != perf_place_of(o->mem, 0).device)
		return cli_usage("--gpu %llu is not the GPU of --mem: nothing would go as messages",
				 (unsigned long long)o->plugin.gpu);
	if (plugin && gpus)
		return cli_usage("--transport plugin carries host memory; gpudirect that of GPUs");
	for (uint32_t i = 0; i < o->chunks.count; i++)
		chunk = o->chunks.values[i] > chunk ? o->chunks.values[i] : chunk;
	return cli_plugin_prepare(command, &o->plugin, gpudirect,
				  gpudirect ? (int)perf_place_of(o->mem, 0).device : -1, chunk);
}

/* Host memory that one end needs: buffers, and those of plain sockets. */
static uint64_t perf_host_bytes(uint64_t mem, uint64_t buffers, uint64_t sockets)
{
	if (perf_place_of(mem, 0).kind != TCPX_MEM_CUDA)
		return buffers + sockets;
	return sockets < CEILING_RING_BYTES ? sockets : CEILING_RING_BYTES;
}

/* Checks that this process has the kinds of memory, and with --loopback the other end. */
static int check_places(const struct perf_options *o)
{
	struct perf_place local = perf_place_of(o->mem, 0),
			  remote = perf_place_of(o->remote_mem, 0);
	tcpx_status status = perf_place_check(&local);

	if (status != TCPX_OK) {
		cli_fail(status, "--mem");
		return CLI_USAGE;
	}
	status = o->loopback ? perf_place_check(&remote) : TCPX_OK;
	if (status == TCPX_OK)
		return CLI_GO;
	cli_fail(status, "--remote-mem");
	return CLI_USAGE;
}

/* Refuses buffers that do not fit, since the kernel would kill a process. */
static int check_memory(const struct perf_options *o)
{
	uint64_t most = o->working_set, bytes = 0, free_bytes = perf_memory_free();
	uint64_t sockets = o->ceiling && !perf_one_way(o->op) ? o->working_set : 0;
	char want[BYTES_TEXT_MAX], have[BYTES_TEXT_MAX];

	if (o->op == PERF_OP_NOTIFY)
		return CLI_GO;
	for (uint32_t i = 0; i < o->sizes.count; i++)
		most = o->sizes.values[i] > most ? o->sizes.values[i] : most;
	bytes = perf_host_bytes(o->mem, most, sockets);
	bytes += o->loopback ? perf_host_bytes(o->remote_mem, most, sockets) : 0;
	bytes *= o->bidir ? 2 : 1;
	if (bytes <= free_bytes)
		return CLI_GO;
	return cli_usage("buffers of %s%s are more than the %s of memory that are free; lower "
			 "--size or --working-set",
			 bytes_format(bytes, want, sizeof(want)), o->loopback ? " (both ends)" : "",
			 bytes_format(free_bytes, have, sizeof(have)));
}

/* Checks options that exclude one another. Returns CLI_GO or an exit code. */
static int perf_check_options(const struct cli_command *command, const struct perf_options *o)
{
	char host[PERF_HOST_MAX];
	const char *wrong;
	unsigned port = 0;
	int rc;

	if (o->loopback && o->host)
		return cli_usage("HOST and --loopback exclude one another");
	if (!o->loopback && !o->host)
		return cli_usage("give a HOST[:PORT] or --loopback; see 'tcpx perf --help'");
	wrong = o->host ? perf_host_split(o->host, host, &port) : NULL;
	if (wrong)
		return cli_usage("'%.80s' is not HOST[:PORT]: %s", o->host, wrong);
	if (o->port && (o->loopback || port))
		return cli_usage("--port is for a HOST without a port");
	if (o->ipv4 && o->ipv6)
		return cli_usage("--ipv4 and --ipv6 exclude one another");
	if (o->reverse && o->op != PERF_OP_READ)
		return cli_usage("--reverse is for --op write, which it makes a read");
	if (o->no_check && o->inject_fault)
		return cli_usage("--inject-fault needs the check that --no-check switches off");
	if (perf_one_way(o->op) &&
	    (o->bidir || o->batch > 1 || (o->depth > 1 && cli_given(command, "depth"))))
		return cli_usage("--bidir, --batch and --depth are for --op write, read and send");
	if (perf_one_way(o->op) && o->interval > 0)
		return cli_usage("--interval is for --op write, read and send");
	for (uint32_t i = 0; i < o->sizes.count; i++) {
		char text[BYTES_TEXT_MAX];

		bytes_compact(o->sizes.values[i], text, sizeof(text));
		if (o->sizes.values[i] % o->batch)
			return cli_usage("--batch %llu does not divide --size %s",
					 (unsigned long long)o->batch, text);
		if (o->op == PERF_OP_NOTIFY && o->sizes.values[i] > TCPX_NOTIFY_MAX)
			return cli_usage("--size %s: a notification has at most 64M", text);
	}
	if (o->json && o->csv && !strcmp(o->json, "-") && !strcmp(o->csv, "-"))
		return cli_usage("--json and --csv cannot both have stdout; give one a FILE");
	if (o->json && cli_json_check())
		return CLI_USAGE;
	rc = check_memory(o);
	return rc == CLI_GO ? check_places(o) : rc;
}

static int perf_command(const struct cli_command *command, int argc, char **argv)
{
	struct perf_options o = {0};
	int no_local = local_is_off();
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (first < argc)
		o.host = argv[first];
	perf_settle(command, no_local, &o);
	/* Each chunk size needs a process of its own, because a plugin reads its chunk size
	 * once. */
	if (o.loopback && !o.host && o.chunks.count > 1 && uses(&o, PERF_TRANSPORT_GPUDIRECT))
		return o.csv ? cli_usage("--csv is for one --chunk over gpudirect; run one after "
					 "the other")
			     : perf_chunks_run(&o, argc, argv);
	rc = prepare_plugin(command, &o);
	if (rc == CLI_GO)
		rc = perf_check_options(command, &o);
	if (rc != CLI_GO)
		return rc;
	cli_say_unknown();
	if (o.timeout > 0)
		o.deadline_ns = clock_now_ns() + (int64_t)(o.timeout * 1e9);
	return perf_run(&o);
}

/* For users of iperf3: its options that have another name here, or none. */
static const char *iperf3_advice(int letter, const char *name)
{
	static const struct {
		char letter;
		const char *name, *advice;
	} rows[] = {
		{'c', "client", "give the host alone: tcpx perf HOST"},
		{'s', "server", "start the other end by 'tcpx serve'"},
		{'l', "length", "the size of a transfer is --size"},
		{'B', "", "the local end is --bind"},
		{'C', "congestion", "the congestion control is TCPX_CONGESTION"},
		{'P', "parallel", "the number of connections is -P, --channels"},
		{'f', "format", "the unit of the rate is --units"},
		{'k', "blockcount", "the number of transfers is -n, --iters"},
		{'M', "set-mss", "the size of packets is found out by itself"},
		{'O', "omit", "transfers before the timed ones are made without an option"},
		{'N', "no-delay", "connections always send at once"},
		{'A', "affinity", "threads run near their NIC or GPU; see TCPX_PIN"},
		{'V', "", "the log is TCPX_LOG=info or debug"},
		{'u', "udp", "there is no UDP"},
		{'b', "bitrate", "there is no limit of the rate"},
		{'w', "window",
		 "the kernel sizes the buffers of sockets; 'tcpx doctor' checks their limits"},
		{'Z', "zerocopy", "payloads are sent without a copy where that is faster"},
		{'G', "get-server-output", "the table shows both ends"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (letter ? rows[i].letter == letter
			   : *rows[i].name && !strcmp(rows[i].name, name))
			return rows[i].advice;
	return NULL;
}

const struct cli_command command_perf = {
	.name = "perf",
	.args = "HOST[:PORT] | --loopback [options]",
	.summary = "Measures transfers to a 'tcpx serve', compares every byte",
	COMMAND_OPTIONS(options),
	.max_args = 1,
	.run = perf_command,
	.advise = iperf3_advice,
};
