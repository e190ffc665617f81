/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NIC and which GPU go together, through the library's API over the TCPX emulator, on the
 * tree of an A3 host: the six rows that were seen on real hosts, with pairing off, on, and with the
 * NIC's own GPUs hidden; every GPU with every NIC.
 */
#include "plugin_a3.h"
#include "plugin_said.h"

#define SIZE (5u * MESSAGE + 1000)

enum end {
	WORKS,
	NO_CMSG, /* the flow is not steered: the plugin's call fails, or it ends the process */
	SILENT,	 /* EFAULT in a thread of the plugin: nothing comes any more */
};

struct row {
	const char *name, *nic; /* what the second receives with; the first has the GPU's own */
	uint32_t gpu;
	bool cuda;
	enum end end;
	const char *says;
};

static const struct row rows[] = {
	{"eth1_gpu0_cuda", "eth1", 0, true, WORKS, NULL},
	{"eth2_gpu0_cuda", "eth2", 0, true, NO_CMSG,
	 "NIC eth2&GPU 0000:04:00.0&NIC 0000:0c:00.0&0000:06:00.0 (eth1)"},
	{"eth2_gpu0_host", "eth2", 0, false, WORKS, NULL},
	{"eth1_gpu0_host", "eth1", 0, false, SILENT, NULL},
	{"eth2_gpu2_cuda", "eth2", 2, true, WORKS, NULL},
	{"eth1_gpu2_cuda", "eth1", 2, true, NO_CMSG,
	 "NIC eth1&GPU 0000:0a:00.0&NIC 0000:06:00.0&0000:0c:00.0 (eth2)"},
};
static const char *const broken_rule[] = {NULL, "no-cmsg", "host-steered"};

#define CHANNELS 2
#define ROWS (sizeof(rows) / sizeof(*rows))

static const char *words(const char *format, ...)
{
	static char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return text;
}

static void row_env(struct side *side, const struct row *row, const char *pairing)
{
	side_env("TCPX_PAIRING", pairing);
	side_env("TCPX_PLUGIN_CHANNELS", "2"); /* CHANNELS */
	if (row->end != WORKS) /* who receives is the first to see that nothing comes */
		side_env("TCPX_MESSAGE_TIMEOUT_MS", side->index ? "200" : "800");
	side->gpu = row->cuda;
	side->device = row->gpu;
	side->nic = side->index ? row->nic : a3_nic(row->gpu);
	if (!side->index && !row->cuda) /* sent by any, and received by one that is not steered */
		side->nic = "eth3";
	said_keep(TCPX_LOG_INFO);
}

static void areas_make(struct side *side, struct area *mine, struct area *open)
{
	area_make(side, mine, SIZE);
	area_make(side, open, SIZE);
	area_swap(side, open);
}

static void areas_free(struct side *side, struct area *mine, struct area *open)
{
	side_meet(side);
	area_free(side, mine);
	area_free(side, open);
}

static void there_and_back(struct side *side, struct area *mine, struct area *open, uint64_t seed)
{
	tcpx_segment segment = {.local = mine->region, .remote = open->remote, .length = SIZE};

	area_fill(side, mine, 0, SIZE, seed);
	OK(side_end(side, side_start(side, TCPX_OP_WRITE, &segment, 1)));
	area_set(side, mine, 0, SIZE, 0x5a);
	OK(side_end(side, side_start(side, TCPX_OP_READ, &segment, 1)));
	CHECK_MSG(area_is(side, mine, 0, SIZE, seed), "wrong bytes came back");
}

/* The packets that each NIC has put into a GPU's pages since then, here; the rest is silent. */
static void only_counts(const struct tcpxemu_stats *since, const char *nic)
{
	struct tcpxemu_stats now = side_stats();

	for (int i = 0; i < A3_NICS; i++) {
		uint64_t grown = now.devmem_packets[i] - since->devmem_packets[i];

		if (nic && nic[3] == '1' + i)
			CHECK_MSG(grown >= SIZE / 8192, "eth%d counted %d packets", i + 1,
				  (int)grown);
		else
			CHECK_MSG(grown == 0, "eth%d counted %d packets", i + 1, (int)grown);
	}
}

/* ---- rows, the names believed ---- */

/* Ends, with an error that has channel, NIC and peer in it; the stage is in the log. */
static bool lost(struct side *side, const tcpx_segment *segment)
{
	tcpx_request request = side_start(side, TCPX_OP_WRITE, segment, 1);
	tcpx_status status = tcpx_request_wait(side->session, request, LONG_NS, NULL);
	tcpx_error error = {.sz = sizeof(error)};

	if (status != TCPX_OK) {
		EXPECT(status, TCPX_ERR_CHANNEL_LOST);
		OK(tcpx_request_error(side->session, request, &error));
		/* The other end's reason, or what this end saw of it, whichever came first. */
		CHECK_MSG(said_in(error.what, "WRITE of&peer 'second': &channel &, NIC eth"), "%s",
			  error.what);
	}
	OK(tcpx_request_release(side->session, request));
	return status != TCPX_OK;
}

/* Until no channel is tried any more. Then all goes on by streams. */
static void fails(struct side *side, const struct row *row, struct area *mine, struct area *open)
{
	const char *stage = row->end == SILENT ? "announced and did not arrive"
					       : "peer first: test of message 0: rc 3";
	tcpx_segment segment = {.local = mine->region, .remote = open->remote, .length = SIZE};

	CHECK(lost(side, &segment));
	while (said_count("nothing arrived by it 4 times in a row: it rests") < CHANNELS)
		(void)lost(side, &segment);
	/* The end that receives saw it first, and told before the channel was dialled again. */
	CHECK(said(words("peer 'second': channel &over there: channel &, NIC %s&%s", row->nic,
			 stage)));
	CHECK_EQ(side_peer(side).state, TCPX_PEER_UP);
	CHECK_EQ(side_peer(side).message_channels, 0);
	there_and_back(side, mine, open, 7);
}

static void failed_there(const struct row *row)
{
	said_await(words("peer 'first': channel &, NIC %s&%s", row->nic,
			 row->end == SILENT ? "announced and did not arrive"
					    : "peer first: test of message 0: rc 3"));
	CHECK(side_violations(broken_rule[row->end]) > 0);
}

static void off_run(struct side *side, void *arg)
{
	const struct row *row = arg;
	struct tcpxemu_stats before;
	struct area mine, open;

	row_env(side, row, "off");
	side_env("TCPXEMU_FATAL", "rc");
	side_open(side, TCPXEMU);
	CHECK_EQ(said_count("TCPX_PAIRING being off"), side->index && row->end == NO_CMSG);
	if (side->index && row->end == NO_CMSG)
		CHECK(said(row->says));
	side_connect(side, CHANNELS);
	areas_make(side, &mine, &open);
	before = side_stats();
	side_meet(side);
	if (!side->index && row->end == WORKS)
		there_and_back(side, &mine, &open, 5);
	else if (!side->index)
		fails(side, row, &mine, &open);
	side_meet(side);
	if (row->end != WORKS && side->index)
		failed_there(row);
	only_counts(&before, row->cuda && row->end == WORKS ? side->nic : NULL);
	areas_free(side, &mine, &open);
	side_close_wrong(side, broken_rule[row->end]);
}

/* What the child wrote before the plugin ended it says which pair was wrong; here it cannot be said
 * any more. */
static void parent(const struct row *row, pid_t child, int fd)
{
	char text[8192] = "";
	size_t used = 0;
	ssize_t got;
	int status = 0;

	while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	close(fd);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "it ended with %#x: %s", status,
		  text);
	CHECK_MSG(said_in(text, row->says) && said_in(text, "TCPX_PAIRING being off"), "%s", text);
	CHECK_MSG(said_in(text, words("VIOLATION no-cmsg: NIC %s&GPU %u", row->nic, row->gpu)),
		  "%s", text);
}

static pid_t child_make(int *out_fd)
{
	int fds[2];
	pid_t child;

	CHECK(pipe(fds) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		check_alive();
		CHECK(dup2(fds[1], STDERR_FILENO) == STDERR_FILENO);
		close(fds[0]);
	}
	close(fds[1]);
	*out_fd = fds[0];
	return child;
}

/* The plugin ends the process, as the original does. */
static void exit_run(struct side *side, void *arg)
{
	struct row row = *(const struct row *)arg;
	pid_t child = 0;
	int fd;
	struct area mine, open;
	tcpx_segment segment;
	tcpx_status status;

	if (side->index && (child = child_make(&fd)) != 0) {
		close(side->fd);
		parent(&row, child, fd);
		return;
	}
	row.end = WORKS; /* no channel is lost by the clock */
	row_env(side, &row, "off");
	if (side->index)
		tcpx_log_set(NULL, NULL, TCPX_LOG_WARN);
	side_open(side, TCPXEMU);
	side_connect(side, CHANNELS);
	areas_make(side, &mine, &open);
	while (side->index)
		pause(); /* until the plugin calls exit */
	segment = (tcpx_segment){.local = mine.region, .remote = open.remote, .length = SIZE};
	status = side_end(side, side_start(side, TCPX_OP_WRITE, &segment, 1));
	CHECK_MSG(status <= TCPX_ERR_PEER_CLOSED, "%s", tcpx_status_name(status));
	area_free(side, &mine);
	area_free(side, &open);
	side_close_broken(side);
}

/* ---- rows, by relay ---- */

static void relay_run(struct side *side, void *arg)
{
	const struct row *row = arg;
	bool foreign = side->index && row->end == NO_CMSG;
	const char *landing = row->gpu ? "0000:04:00.0" : "0000:0a:00.0";
	struct tcpxemu_stats before;
	struct area mine, open;
	struct row good = *row;

	good.end = WORKS;
	row_env(side, &good, "on");
	side_open(side, TCPXEMU);
	side_connect(side, CHANNELS);
	areas_make(side, &mine, &open);
	before = side_stats();
	side_meet(side);
	if (!side->index)
		there_and_back(side, &mine, &open, 5);
	side_meet(side);
	CHECK_EQ(said_count("are relayed to"), foreign);
	if (foreign)
		CHECK_EQ(
			said_count(words("NIC %s is not GPU %u's&land on GPU %s and are relayed to "
					 "0000:%s:00.0",
					 row->nic, row->gpu, landing, row->gpu ? "0a" : "04")),
			1);
	CHECK_EQ(said_count("channel "), 0); /* none was lost, or not there */
	only_counts(&before, side->nic);
	areas_free(side, &mine, &open);
	side_close(side);
}

/* Without them there is no way through the NIC, and nothing begins. */
static void hidden_case(void *arg)
{
	const struct row *row = arg;
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .plugin = TCPXEMU, .nic = row->nic,
		  .message_gpu = 1);
	struct side side = {.name = "alone", .nic = a3_nic(row->gpu), .gpu = true};
	tcpx_session *session = NULL;
	const char *what, *next;

	side_env("TCPX_PAIRING", "on");
	side_env("CUDA_VISIBLE_DEVICES", row->gpu ? "2,3,4,5" : "0,1,6,7");
	said_keep(TCPX_LOG_INFO);
	side_open(&side, TCPXEMU); /* by its own NIC */
	EXPECT(tcpx_session_open(&opts, &session), TCPX_ERR_UNSUPPORTED);
	what = tcpx_last_error()->what;
	next = tcpx_last_error()->next;
	CHECK_MSG(said_in(what, strchr(row->says, '&') + 1), "%s", what);
	CHECK_MSG(said_in(next, words("--nic %s", a3_nic(row->gpu))), "%s", next);
	CHECK(!session);
	CHECK_EQ(side_stats().comms_made, 0);
	CHECK_EQ(side_stats().sent_messages, 0);
	side_close(&side);
}

static void off_case(void *arg)
{
	side_both(off_run, arg);
}

static void exit_case(void *arg)
{
	side_both(exit_run, arg);
}

static void relay_case(void *arg)
{
	side_both(relay_run, arg);
}

/* ---- all ---- */

/* One session after the other of a process: every GPU with every NIC. */
static void all_run(struct side *side, void *arg)
{
	const char *longer = getenv("TEST_LONG");
	uint64_t seed = 100, rounds = longer && *longer == '1' ? 20 : 1;

	(void)arg;
	side_env("TCPX_PAIRING", "on");
	side_env("TCPX_PLUGIN_CHANNELS", "1");
	side->gpu = true;
	said_keep(TCPX_LOG_WARN);
	for (uint32_t gpu = 0; gpu < A3_GPUS; gpu++) {
		for (uint32_t nic = 0; nic < A3_NICS; nic++) {
			struct tcpxemu_stats before = side_stats();
			struct area mine, open;

			side->device = gpu;
			side->nic = a3_nic(2 * nic);
			side_open(side, TCPXEMU);
			side_connect(side, 1);
			areas_make(side, &mine, &open);
			for (uint64_t i = 0; i < rounds && !side->index; i++)
				there_and_back(side, &mine, &open, seed++);
			side_meet(side);
			only_counts(&before, side->nic);
			areas_free(side, &mine, &open);
			side_close(side);
		}
	}
	CHECK_EQ(said_count("channel "), 0); /* none was lost, or not there */
}

static void all_case(void *arg)
{
	side_both(all_run, arg);
}

static void run_rows(const char *prefix, void (*run)(void *arg), unsigned which, const char *only,
		     struct check_result *result)
{
	for (size_t i = 0; i < ROWS; i++) {
		char name[64];
		struct check_case one = {name, run};

		snprintf(name, sizeof(name), "%s_%s", prefix, rows[i].name);
		if (which >> i & 1 && (!only || strstr(name, only)))
			check_case_run(&one, (void *)&rows[i], result);
	}
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	struct check_case all = {"all", all_case};
	struct check_result result = {0};
	struct sysfs_tree a3;

	a3_begin(&a3);
	side_env("TCPXEMU_FRAG", "rand");
	run_rows("off", off_case, 0x3f, only, &result);
	run_rows("exit", exit_case, 0x22, only, &result);
	run_rows("on", relay_case, 0x33, only, &result);
	run_rows("hidden", hidden_case, 0x22, only, &result);
	if (!only || !strcmp(only, all.name))
		check_case_run(&all, NULL, &result);
	sysfs_remove(&a3);
	return check_end(&result);
}
