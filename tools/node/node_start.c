/* SPDX-License-Identifier: Apache-2.0 */
/* A rank from its command line to the meeting with the others, and its exit. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "cli_output.h"
#include "node.h"
#include "node_control.h"
#include "perf_host.h"
#include "sys/addr.h"

static bool is_loopback(const char *host)
{
	return !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}

/* A meeting by address lets in whoever knows it, so ranks must prove themselves by a key. */
static tcpx_status check_trust(const struct node *node)
{
	const struct node_options *o = node->options;
	const char *key = o->key ? o->key : config_text(CONFIG_KEY_FILE);

	if (node->meet.via != LAUNCH_VIA_ADDRESS || *key || o->insecure ||
	    is_loopback(node->meet.where))
		return TCPX_OK;
	(void)error_set(TCPX_ERR_AUTH, 0,
			"the rendezvous %s:%u shares no secret, and there is no key",
			node->meet.where, node->meet.port);
	return error_next("give every rank TCPX_KEY_FILE (Kubernetes: a mounted Secret), or meet "
			  "in a shared file");
}

/* Fails if ranks are on several hosts and only loopback, the default, is bound. */
static tcpx_status check_rails(const struct node *node, const struct launch *launch)
{
	const char *bind = node->options->bind;
	bool far = node->meet.via == LAUNCH_VIA_ADDRESS ? !is_loopback(node->meet.where)
							: launch->many_hosts;

	if (!far || (bind && *bind))
		return TCPX_OK;
	(void)error_set(TCPX_ERR_INVALID, 0,
			"the ranks are on several hosts, and --bind names no "
			"interface between them");
	return error_next("name them, as --bind eth1,eth2, or TCPX_BIND");
}

static tcpx_status pick_gpu(struct node *node, const struct launch *launch)
{
	if (!launch->has_local) {
		(void)error_set(TCPX_ERR_INVALID, 0,
				"--local-rank: the rank of this process on its host is unknown");
		return error_next("start it by a launcher, or set TCPX_LOCAL_RANK");
	}
	if (launch->local_rank >= node->ngpus)
		return error_set(TCPX_ERR_NOT_FOUND, 0,
				 "--local-rank: this is local rank %u, and --gpus %s names %u",
				 launch->local_rank, node->options->gpus, node->ngpus);
	node->gpus[0].number = node->gpus[launch->local_rank].number;
	node->gpus[0].listed = launch->local_rank;
	node->ngpus = 1;
	return TCPX_OK;
}

static tcpx_status find_launch(const struct node_options *o, struct launch *out,
			       char first[LAUNCH_TEXT_MAX])
{
	*first = '\0';
	if (!o->hostfile || !*o->hostfile)
		return launch_find(o->launcher, out);
	return launch_by_hosts(o->hostfile, out, first);
}

/* Ranks that a launcher started. Without one there are two: this one and the one that HOST
 * names, or that names this one. */
static tcpx_status take_launch(struct node *node, struct node_options *o)
{
	char first[LAUNCH_TEXT_MAX];
	struct launch launch;
	tcpx_status status = find_launch(o, &launch, first);

	if (status == TCPX_OK && o->local_rank)
		status = pick_gpu(node, &launch);
	if (status != TCPX_OK || !launch.by)
		return status;
	if (launch.size < 2 || launch.size > NODE_RANKS_MAX)
		return error_set(TCPX_ERR_INVALID, 0, "%u rank%s by %s; 2 to %d work together",
				 launch.size, launch.size == 1 ? "" : "s", launch.by,
				 NODE_RANKS_MAX);
	node->launched = true;
	node->rank = launch.rank;
	node->size = launch.size;
	node->size_by = launch.size_by;
	/* Advertised ports must be the published ones, so no other may be taken. */
	node->any_port = !launch.alone_here && !o->local_rank && !(o->advertise && *o->advertise);
	status = launch_meet_by(&launch, o->rendezvous && *o->rendezvous ? o->rendezvous : first,
				node->port, &node->meet);
	if (status == TCPX_OK)
		status = check_trust(node);
	if (status == TCPX_OK)
		status = check_rails(node, &launch);
	if (status != TCPX_OK || launch.rank || o->quiet)
		return status;
	printf("%u ranks by %s, rendezvous %s\n", launch.size, launch.by,
	       node->meet.via == LAUNCH_VIA_PMIX ? "PMIx" : node->meet.where);
	return TCPX_OK;
}

/* Started by hand with HOST: this is rank 1, and rank 0 listens there. */
static int take_host(struct node *node, struct node_options *o, const char *text)
{
	static char host[PERF_HOST_MAX];
	unsigned port = 0;
	const char *why = perf_host_split(text, host, &port);

	if (why)
		return cli_usage("'%s': %s", text, why);
	if (strcmp(o->launcher, "auto") != 0 && strcmp(o->launcher, "none") != 0)
		return cli_usage("HOST is for two ranks started by hand, --launcher %s is not",
				 o->launcher);
	if (o->local_rank)
		return cli_usage("--local-rank is for ranks of a launcher, HOST for two by hand");
	if (port) {
		o->port_base = port;
		node->port = port - 1;
	}
	node->host = host;
	node->rank = 1;
	return CLI_GO;
}

/* A host file from the environment only counts if nothing on the command line tells the ranks. */
static int check_hostfile(const struct cli_command *command, struct node_options *o, bool by_hand)
{
	bool named = strcmp(o->launcher, "auto") != 0;

	if (!named && !by_hand)
		return CLI_GO;
	if (cli_given(command, "hostfile") && *o->hostfile)
		return cli_usage("--hostfile says who the ranks are, and so does %s%s",
				 named ? "--launcher " : "HOST", named ? o->launcher : "");
	o->hostfile = NULL;
	return CLI_GO;
}

/* TCPX_OOB_PORT, if set: the predecessor's variable for the port of its control link. */
static uint32_t control_port(const struct node_options *o)
{
	uint32_t port = (uint32_t)config_u64(CONFIG_OOB_PORT);

	return port ? port : (uint32_t)o->port_base - 1;
}

int node_start(const struct cli_command *command, struct node *node, struct node_options *o,
	       int argc, char **argv, int first)
{
	uint32_t numbers[NODE_GPUS_MAX];
	tcpx_status status;
	int rc;

	node->options = o;
	node->job = command->name;
	node->size = 2;
	if (node_gpus_parse(o->gpus, numbers, &node->ngpus) != TCPX_OK)
		return cli_usage("%s", tcpx_last_error()->what);
	node->listed = node->ngpus;
	for (uint32_t i = 0; i < node->ngpus; i++) {
		node->gpus[i].node = node;
		node->gpus[i].index = i;
		node->gpus[i].number = numbers[i];
		node->gpus[i].listed = i;
	}
	if (o->transport == NODE_LOCAL && o->no_local)
		return cli_usage("--transport local and --no-local exclude each other");
	rc = check_hostfile(command, o, first < argc);
	if (rc == CLI_GO && first < argc)
		rc = take_host(node, o, argv[first]);
	/* Must come before the library's options are read, because it sets some of them. */
	if (rc == CLI_GO && o->transport >= NODE_PLUGIN)
		rc = cli_plugin_prepare(command, &o->plugin, o->transport == NODE_GPUDIRECT, -1, 0);
	if (rc != CLI_GO)
		return rc;
	if (cli_given(command, "port-base"))
		node->port = (uint32_t)o->port_base - 1;
	else if (!node->port)
		node->port = control_port(o);
	if (first == argc) {
		status = take_launch(node, o);
		if (status != TCPX_OK)
			return cli_fail(status, "this rank cannot start");
	}
	node->say = !o->quiet && !(node->launched && node->rank);
	cli_say_unknown();
	return CLI_GO;
}

static void say_waiting(void *arg, const char *stage, const uint32_t *missing, uint32_t count,
			int64_t left_ns)
{
	char text[256] = "";
	size_t len = 0;

	(void)arg;
	for (uint32_t i = 0; i < count && i < 16 && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", i ? ", " : "",
					missing[i]);
	cli_error("stage '%s': waiting for rank%s %s%s, for %lld s more", stage,
		  count > 1 ? "s" : "", text, count > 16 ? ", ..." : "",
		  (long long)((left_ns + CLOCK_S_NS / 2) / CLOCK_S_NS));
}

static tcpx_status find_first(void *arg, void *info, size_t cap, size_t *out_bytes)
{
	return launch_meet_take(arg, info, cap, out_bytes);
}

static tcpx_status give_info(struct node *node)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	size_t bytes;
	tcpx_status status = node_control_info(node->control, info, sizeof(info), &bytes);

	return status == TCPX_OK ? launch_meet_give(&node->meet, info, bytes) : status;
}

static tcpx_status open_control(struct node *node)
{
	char advertise[NODE_ADVERTISE_MAX];
	const struct node_options *o = node->options;
	bool by_info = node->launched && node->meet.via != LAUNCH_VIA_ADDRESS;
	struct node_control_opts opts = {.rank = node->rank,
					 .size = node->size,
					 .size_by = node->size_by,
					 .job = node->job,
					 .host = node->host,
					 .bind = o->bind,
					 .key = o->key,
					 .advertise = advertise,
					 .insecure = o->insecure,
					 .port = node->port,
					 .timeout_ns = (int64_t)(o->timeout * 1e9),
					 .waits = say_waiting};
	tcpx_status status;

	status = node_advertise(o, -1, advertise);
	if (status != TCPX_OK)
		return status;
	if (by_info) {
		opts.find = find_first;
		opts.find_arg = &node->meet;
		if (!*advertise) /* nobody can publish an arbitrary port */
			opts.port = 0;
	} else if (node->launched) {
		opts.host = node->rank ? node->meet.where : NULL;
		opts.port = node->meet.port;
	}
	status = node_control_open(&opts, &node->control);
	if (status == TCPX_OK && by_info && !node->rank)
		status = give_info(node);
	return status;
}

/* From here on the other ranks are told of a failure. */
static int drive(struct node *node, tcpx_status (*work)(struct node *, int *))
{
	int rc = CLI_OK;
	tcpx_status status = node_setup(node);
	tcpx_error error = {.sz = sizeof(error)};

	if (status == TCPX_OK)
		status = work(node, &rc);
	if (status == TCPX_OK)
		return rc;
	/* A lost link is mostly the consequence of a failure elsewhere, which is the better
	 * text. */
	if (status <= TCPX_ERR_PEER_CLOSED) {
		tcpx_error lost = *tcpx_last_error();
		tcpx_status verdict = node_control_verdict(node->control);

		if (verdict == TCPX_OK)
			(void)error_raise(&lost);
		else
			status = verdict;
	}
	error = *tcpx_last_error(); /* telling the others may fail and overwrite the last error */
	node_control_fail(node->control, error.what);
	if (error.status == status)
		(void)error_raise(&error);
	return cli_fail(status, "the run failed");
}

/* Started by hand, rank 0 says where it waits and what to type on the other host. */
static void say_first(const struct node *node)
{
	uint64_t base = node->options->port_base;
	struct sockaddr_storage addr;
	char host[SYS_ADDR_TEXT], text[SYS_ADDR_TEXT];

	if (node_control_address(node->control, &addr) != TCPX_OK)
		return;
	sys_addr_host_text(&addr, host);
	sys_addr_set_port(&addr, (uint16_t)base);
	cli_error("waiting for rank 1 at %s port %u; %s run: tcpx %s %s, with the options of this "
		  "one%s",
		  host, node->port,
		  sys_addr_is_loopback(&addr) ? "on this host" : "on the other host", node->job,
		  base == NODE_PORT_BASE ? host : sys_addr_text(&addr, text),
		  sys_addr_is_loopback(&addr) ? " (for another host: --bind and --key)" : "");
}

static int meet_and_drive(struct node *node, tcpx_status (*work)(struct node *, int *))
{
	tcpx_status status = node_find_gpus(node);
	int rc;

	if (status == TCPX_OK)
		status = node_nics_assign(node);
	if (status == TCPX_OK)
		status = node_plan_check(node->options->peers, node->size);
	if (status != TCPX_OK)
		return cli_fail(status, "this rank cannot start");
	status = open_control(node);
	if (status != TCPX_OK) {
		rc = cli_fail(status, "no control link");
		node_control_close(node->control);
		return rc;
	}
	if (!node->launched && !node->rank && !node->options->quiet)
		say_first(node);
	if (node->options->insecure)
		cli_error("INSECURE: whoever reaches the ports may connect");
	rc = drive(node, work);
	node_close(node);
	node_control_close(node->control);
	return rc;
}

int node_drive(struct node *node, tcpx_status (*work)(struct node *node, int *out_rc))
{
	int rc;

	node_log_start();
	rc = meet_and_drive(node, work);
	node_log_end();
	if (node->launched)
		launch_meet_over(&node->meet);
	launch_pmix_close();
	return rc;
}
