/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx serve: the server for 'tcpx perf'. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "cli_address.h"
#include "cli_devmem.h"
#include "cli_output.h"
#include "cli_plugin.h"
#include "commands.h"
#include "perf_host.h"
#include "perf_plan.h"
#include "perf_rails.h"
#include "perf_serve.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "wire/hello.h"

struct serve_options {
	int ipv4, ipv6, once, insecure, busy_poll, perf_lines, no_local, quiet, die_with_parent;
	uint64_t port, channels, chunk, max_memory, workers, transport;
	double idle;
	struct cli_plugin plugin;
	struct cli_list mem;
	const char *bind, *advertise, *key;
};

#define AT(field) offsetof(struct serve_options, field)
#define PORT_UNSET 65536
#define FIRST_OPEN_PORT 1024 /* lower ones are for services of the system */

enum transport { TRANSPORT_AUTO, TRANSPORT_PLUGIN, TRANSPORT_GPUDIRECT };

static const struct cli_option options[] = {
	{"bind", "ADDR|IF[,...]", CLI_RULE_TEXT, AT(bind), NULL, 0,
	 "listen there only (with a key: all but loopback)", .group = "Where"},
	{"port",
	 "P",
	 {CLI_COUNT, 0, 65535},
	 AT(port),
	 NULL,
	 0,
	 "0: any free one (default: 20000, or the next)",
	 .letter = 'p'},
	{"ipv4", NULL, CLI_RULE_FLAG, AT(ipv4), NULL, 0, "listen on IPv4 addresses only",
	 .letter = '4'},
	{"ipv6", NULL, CLI_RULE_FLAG, AT(ipv6), NULL, 0, "listen on IPv6 addresses only",
	 .letter = '6'},
	{"advertise", "HOST[:PORT]", CLI_RULE_TEXT, AT(advertise), NULL, CLI_ENV(ADVERTISE),
	 "address told to clients, for NAT"},
	{"transport",
	 "KIND",
	 {CLI_CHOICE, 0, 0, "auto|plugin|gpudirect"},
	 AT(transport),
	 "auto",
	 0,
	 "auto, or messages as well: plugin, gpudirect"},
	{"channels",
	 "N",
	 {CLI_COUNT, 1, 64},
	 AT(channels),
	 NULL,
	 0,
	 "channels per client",
	 .letter = 'P'},
	{"chunk",
	 "BYTES",
	 {CLI_BYTES, 4u << 10, 16u << 20},
	 AT(chunk),
	 NULL,
	 0,
	 "bytes of a chunk"},
	{"workers", "N", {CLI_COUNT, 1, 64}, AT(workers), NULL, 0, "threads of the library"},
	{"busy-poll", NULL, CLI_RULE_FLAG, AT(busy_poll), NULL, 0, "spin instead of sleeping"},
	{"no-local", NULL, CLI_RULE_FLAG, AT(no_local), NULL, 0,
	 "never use the same-host transport"},
	{"once", NULL, CLI_RULE_FLAG, AT(once), NULL, 0, "end after the first client",
	 .letter = '1', .group = "Clients"},
	{"idle-timeout",
	 "S",
	 {CLI_SECONDS, 0, 86400},
	 AT(idle),
	 NULL,
	 0,
	 "end after S seconds without a client"},
	{"mem",
	 "LIST",
	 {CLI_CHOICE_LIST, 0, 0, PERF_MEMS},
	 AT(mem),
	 "host,cuda",
	 0,
	 "memory allowed: host, cuda[:N]"},
	{"max-memory",
	 "BYTES",
	 {CLI_BYTES, 1u << 20, 1ull << 47},
	 AT(max_memory),
	 NULL,
	 0,
	 "buffers of all clients (default: half of RAM)"},
	CLI_PLUGIN_OPTIONS(AT),
	{"key", "FILE", CLI_RULE_TEXT, AT(key), NULL, 0, "shared key file (default: TCPX_KEY_FILE)",
	 .group = "Trust"},
	{"insecure", NULL, CLI_RULE_FLAG, AT(insecure), NULL, 0,
	 "go beyond loopback without a key"},
	{"perf-lines", NULL, CLI_RULE_FLAG, AT(perf_lines), NULL, CLI_ENV(PERF),
	 "also lines '[PERF] key=value', for old scripts", .group = "Output and end"},
	{"quiet", NULL, CLI_RULE_FLAG, AT(quiet), NULL, 0, "do not print clients that come and go"},
	{"die-with-parent", NULL, CLI_RULE_FLAG, AT(die_with_parent), NULL, 0,
	 "end when the process that started it ends"},
};

/* Ports below 1024 belong to services of the system, so clients there must prove a key. */
static int check_port(const struct serve_options *o)
{
	uint64_t port = o->port == PORT_UNSET ? perf_port_default() : o->port;

	if (!port || port >= FIRST_OPEN_PORT || (o->key && *o->key) ||
	    *config_text(CONFIG_KEY_FILE))
		return CLI_GO;
	return cli_usage("port %llu is below %d, and there is no key; choose another port, or give "
			 "--key FILE",
			 (unsigned long long)port, FIRST_OPEN_PORT);
}

/* With a key, or without the need of one, clients on other hosts are expected: without --bind all
 * interfaces are used. */
static tcpx_status choose_rails(struct serve_options *o)
{
	static char all[PERF_BIND_MAX];
	int named = (o->bind && *o->bind) || *config_text(CONFIG_BIND);
	int key = (o->key && *o->key) || *config_text(CONFIG_KEY_FILE);
	tcpx_status status;

	if (named || (!key && !o->insecure))
		return TCPX_OK;
	status = perf_rails_all(all, sizeof(all));
	if (status == TCPX_OK && *all)
		o->bind = all;
	return status;
}

/* Keeps the addresses of one family. */
static tcpx_status keep_family(struct serve_options *o)
{
	static char list[PERF_BIND_MAX];
	struct sockaddr_storage addrs[PERF_RAILS_MAX];
	const char *bind = o->bind ? o->bind : config_text(CONFIG_BIND);
	int family = o->ipv4 ? AF_INET : AF_INET6;
	unsigned count = 0;
	size_t used = 0;
	tcpx_status status;

	if (!*bind) { /* loopback */
		o->bind = o->ipv4 ? "127.0.0.1" : "::1";
		return TCPX_OK;
	}
	status = sys_iface_expand(bind, addrs, PERF_RAILS_MAX, &count);
	if (status != TCPX_OK)
		return status;
	for (unsigned i = 0; i < count; i++) {
		char text[SYS_ADDR_TEXT];

		if (addrs[i].ss_family != family || used + SYS_ADDR_TEXT >= sizeof(list))
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? "," : "",
					 sys_addr_host_text(&addrs[i], text));
	}
	if (!used) {
		error_set(TCPX_ERR_ADDRESS, 0, "%.80s has no IPv%d address", bind,
			  family == AF_INET ? 4 : 6);
		return error_next("leave -%d out, or bind something else", o->ipv4 ? 4 : 6);
	}
	o->bind = list;
	return TCPX_OK;
}

/* Says that only loopback is listened on, because a client on another host only sees a refusal. */
static void say_alone(const struct serve_options *o, const struct perf_house *house)
{
	if (o->quiet || o->die_with_parent)
		return;
	for (unsigned i = 0; i < house->naddresses; i++)
		if (!sys_addr_is_loopback(&house->addresses[i]))
			return;
	fprintf(stderr,
		"(this host alone; for others give both ends a key: --key FILE or "
		"TCPX_KEY_FILE%s)\n",
		o->bind || *config_text(CONFIG_BIND) ? ", and here --bind auto" : "");
}

static tcpx_status serve_open_session(const struct serve_options *o, tcpx_session **out)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = o->bind, .advertise = o->advertise,
		  .key_file = o->key, .channels = (uint32_t)o->channels,
		  .chunk_bytes = (uint32_t)o->chunk, .workers = (uint32_t)o->workers);

	if (o->insecure)
		opts.flags |= TCPX_SESSION_INSECURE;
	if (o->busy_poll)
		opts.flags |= TCPX_SESSION_BUSY_POLL;
	if (o->transport != TRANSPORT_AUTO) {
		opts.plugin = o->plugin.file;
		opts.nic = o->plugin.nic;
		opts.plugin_channels = (uint32_t)o->plugin.channels;
	}
	if (o->no_local || o->transport != TRANSPORT_AUTO)
		opts.flags |= TCPX_SESSION_NO_LOCAL;
	return tcpx_session_open(&opts, out);
}

/* An explicit port must be free; the default one may be replaced by one of the next. */
static tcpx_status listen_on(const struct serve_options *o, tcpx_session *session,
			     uint16_t *out_port)
{
	TCPX_OPTS(tcpx_listen_opts, opts, .port = (uint32_t)o->port);

	if (o->port == PORT_UNSET) {
		opts.port = perf_port_default();
		opts.retries = (uint32_t)config_u64(CONFIG_PORT_RETRIES);
	}
	return tcpx_session_listen(session, &opts, out_port);
}

/* Says "ready ADDR:PORT" for each address, as the connection info names them. */
static tcpx_status say_ready(struct perf_house *house)
{
	uint8_t buf[TCPX_INFO_MAX_BYTES];
	struct wire_info info;
	size_t len;
	tcpx_status status = tcpx_session_info(house->session, buf, sizeof(buf), &len);

	if (status == TCPX_OK)
		status = wire_info_decode(buf, len, &info);
	explicit_bzero(buf, sizeof(buf));
	explicit_bzero(info.secret, sizeof(info.secret));
	if (status != TCPX_OK)
		return status;
	for (unsigned i = 0; i < info.naddrs && i < PERF_ADDRESSES_MAX; i++) {
		char text[SYS_ADDR_TEXT];

		cli_address(&info.addrs[i], &house->addresses[house->naddresses]);
		printf("ready %s\n", sys_addr_text(&house->addresses[house->naddresses++], text));
	}
	return TCPX_OK;
}

/* Prints the identity, a public key, for 'tcpx perf --peer-key'. */
static void say_key(const struct serve_options *o, tcpx_session *session)
{
	char key[65];

	if (!o->quiet && tcpx_session_key(session, key) == TCPX_OK && *key)
		fprintf(stderr, "(optional: 'tcpx perf --peer-key %s' accepts only this serve)\n",
			key);
}

static uint64_t half_of_ram(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages / 2 * (uint64_t)size : 4ull << 30;
}

/* Listens on the open session and serves. */
static int serve(const struct serve_options *o, tcpx_session *session)
{
	static struct perf_house house;
	struct cli_devmem devmem = {0};
	char text[512];
	uint16_t port = 0;
	tcpx_status status = listen_on(o, session, &port);
	int rc;

	house.session = session;
	house.perf_lines = o->perf_lines;
	house.quiet = o->quiet;
	house.idle_ns = (int64_t)(o->idle * 1e9);
	house.verbose = o->plugin.verbose;
	house.memory_limit = o->max_memory ? o->max_memory : half_of_ram();
	for (uint32_t i = 0; i < o->mem.count; i++) {
		struct perf_place place = perf_place_of(o->mem.values[i], PERF_DEVICE_FIRST);

		house.kinds |= 1ull << place.kind;
		if (place.kind == TCPX_MEM_CUDA)
			house.gpus |= place.device == PERF_DEVICE_FIRST ? UINT64_MAX
									: 1ull << place.device;
	}
	if (status != TCPX_OK)
		return cli_fail(status, "cannot listen");
	if (!strcmp(tcpx_session_trust(session), "insecure"))
		cli_error("INSECURE: whoever reaches the port may connect");
	status = say_ready(&house);
	if (status != TCPX_OK)
		return cli_fail(status, "connection info");
	if (cli_flush(stdout))
		return CLI_FAILED; /* nobody can see the ready line */
	if (o->port == PORT_UNSET && port != perf_port_default() && !o->quiet)
		fprintf(stderr, "(port %u is taken: clients have to name %u)\n",
			perf_port_default(), port);
	say_alone(o, &house);
	say_key(o, session);
	if (o->transport == TRANSPORT_GPUDIRECT)
		cli_devmem_start(&devmem, &o->plugin);
	rc = perf_serve_loop(&house, o->once);
	cli_devmem_end(&devmem, text, sizeof(text));
	if (o->transport == TRANSPORT_GPUDIRECT && !o->quiet)
		fprintf(stderr, "rx_devmem_pkts of this end: %s\n", text);
	return rc;
}

/* Hides warnings about options, which perf --loopback has printed for its own environment. */
static bool is_news(const char *line)
{
	return strncmp(line, "TCPX_", 5) != 0 && strncmp(line, "UCCL_TCPX_", 10) != 0;
}

static int serve_command(const struct cli_command *command, int argc, char **argv)
{
	struct serve_options o = {.port = PORT_UNSET};
	tcpx_session *session;
	tcpx_status status;
	char text[256];
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc != CLI_GO)
		return rc;
	if (o.die_with_parent)
		log_filter(is_news);
	rc = cli_plugin_usage(command, o.transport != TRANSPORT_AUTO,
			      o.transport == TRANSPORT_GPUDIRECT);
	if (rc == CLI_GO && o.transport != TRANSPORT_AUTO)
		rc = cli_plugin_prepare(command, &o.plugin, o.transport == TRANSPORT_GPUDIRECT, -1,
					o.chunk);
	if (rc == CLI_GO)
		rc = check_port(&o);
	if (rc == CLI_GO && o.ipv4 && o.ipv6)
		rc = cli_usage("--ipv4 and --ipv6 exclude one another");
	if (rc != CLI_GO)
		return rc;
	if (o.die_with_parent) {
		pid_t parent = getppid();

		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent || parent == 1)
			return CLI_FAILED;
	}
	if (!o.die_with_parent)
		cli_say_unknown();
	else /* perf --loopback has reported them; the library then stays silent */
		(void)cli_unknown(0, text, sizeof(text));
	status = choose_rails(&o);
	if (status == TCPX_OK && (o.ipv4 || o.ipv6))
		status = keep_family(&o);
	if (status == TCPX_OK)
		status = serve_open_session(&o, &session);
	if (status != TCPX_OK)
		return cli_fail(status, "cannot open a session");
	rc = serve(&o, session);
	tcpx_session_close(session);
	return rc;
}

/* For users of iperf3. */
static const char *serve_advice(int letter, const char *name)
{
	if (letter == 's' || !strcmp(name, "server"))
		return "this is the server: leave it out";
	if (!strcmp(name, "one-off"))
		return "to end after the first client is --once";
	if (letter == 'D' || !strcmp(name, "daemon"))
		return "start it in the background: systemd-run, nohup or &";
	return NULL;
}

const struct cli_command command_serve = {
	.name = "serve",
	.args = "[options]",
	.summary = "Waits for 'tcpx perf'; prints 'ready ADDR:PORT' when it accepts",
	COMMAND_OPTIONS(options),
	.run = serve_command,
	.advise = serve_advice,
};
