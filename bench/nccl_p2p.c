/* SPDX-License-Identifier: Apache-2.0 */
/* Yardstick: NCCL send/recv and collectives between two GPUs of this host over its sockets. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "bench_util.h"
#include "nccl_p2p.h"

#define GRACE_NS 5000000000

static const char usage[] =
	"usage: nccl_p2p [--nccl PATH] [--gpus A,B] [--sizes LIST] [--modes LIST] [--reps N]\n"
	"                [--window N] [--volume BYTES] [--trips N] [--timeout S] [--label TEXT]\n"
	"                [--op sendrecv|all-reduce|all-to-all] [--dry-run]\n"
	"NCCL send/recv from GPU A to GPU B, two processes, sockets over loopback; JSON lines.\n"
	"Collectives have algorithm and bus bandwidth as nccl-tests count them; sizes are "
	"multiples\n"
	"of 8. --dry-run says what would be measured.\n"
	"modes: separate (a call a message), grouped (--window of them in one group), single (one\n"
	"message, delivered, then the next), pingpong. NCCL_* variables of the caller are kept:\n"
	"that is how it is tuned. Exit 77: no NCCL, no driver or no second GPU.\n";

static void parse_sizes(struct p2p_options *o, const char *text)
{
	char copy[1024], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", text);
	o->nsizes = 0;
	for (char *at = strtok_r(copy, ",", &save); at; at = strtok_r(NULL, ",", &save)) {
		if (o->nsizes == P2P_SIZES || bytes_parse(at, &o->sizes[o->nsizes]) ||
		    !o->sizes[o->nsizes]) {
			fprintf(stderr, "--sizes: '%s' is no size, or there are too many\n", at);
			exit(2);
		}
		o->nsizes++;
	}
}

/* -1: none of them. */
static int parse_op(struct p2p_options *o, const char *text)
{
	for (o->op = P2P_SENDRECV; o->op <= P2P_ALL_TO_ALL; o->op++)
		if (!strcmp(text, p2p_op_name(o->op)))
			return 0;
	fprintf(stderr, "--op: '%s' is none of sendrecv, all-reduce, all-to-all\n", text);
	return -1;
}

/* Words of collectives, and a part for each of two ranks. */
static void check_sizes(const struct p2p_options *o)
{
	for (unsigned i = 0; i < o->nsizes && o->op != P2P_SENDRECV; i++)
		if (o->sizes[i] % 8) {
			fprintf(stderr, "--sizes: %llu is no multiple of 8, as --op %s wants\n",
				(unsigned long long)o->sizes[i], p2p_op_name(o->op));
			exit(2);
		}
}

static int say_dry(const struct p2p_options *o)
{
	for (unsigned i = 0; i < o->nsizes; i++)
		printf("{\"bench\":\"nccl_p2p\",\"dry_run\":true,\"label\":\"%s\",\"mode\":\"%s\","
		       "\"bytes\":%llu,\"ranks\":2,\"reps\":%u,\"bus_factor\":%g}\n",
		       o->label, o->op == P2P_SENDRECV ? o->modes : p2p_op_name(o->op),
		       (unsigned long long)o->sizes[i], o->reps, p2p_bus_factor(o->op, 2));
	return 0;
}

static void parse(int argc, char **argv, struct p2p_options *o, int *rank, int *fd)
{
	static const struct option table[] = {
		{"nccl", 1, NULL, 'n'},	   {"gpus", 1, NULL, 'g'},  {"sizes", 1, NULL, 's'},
		{"modes", 1, NULL, 'm'},   {"reps", 1, NULL, 'r'},  {"window", 1, NULL, 'w'},
		{"volume", 1, NULL, 'v'},  {"trips", 1, NULL, 't'}, {"timeout", 1, NULL, 'T'},
		{"label", 1, NULL, 'l'},   {"help", 0, NULL, 'h'},  {"rank", 1, NULL, 'R'},
		{"fd", 1, NULL, 'F'},	   {"logs", 1, NULL, 'L'},  {"op", 1, NULL, 'o'},
		{"dry-run", 0, NULL, 'd'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		int bad = 0;

		if (c == 'n')
			o->nccl = optarg;
		else if (c == 'g')
			bad = sscanf(optarg, "%u,%u", &o->gpu[0], &o->gpu[1]) != 2,
			o->gpus_given = 1;
		else if (c == 's')
			parse_sizes(o, optarg);
		else if (c == 'm')
			o->modes = optarg;
		else if (c == 'r')
			bad = (o->reps = (unsigned)strtoul(optarg, NULL, 10)) - 1 >= 1000;
		else if (c == 'w')
			bad = (o->window = (unsigned)strtoul(optarg, NULL, 10)) - 1 >= 64;
		else if (c == 'v')
			bad = bytes_parse(optarg, &o->volume) != 0;
		else if (c == 't')
			bad = (o->trips = (unsigned)strtoul(optarg, NULL, 10)) - 1 >= 1000000;
		else if (c == 'T')
			bad = (o->timeout_s = (unsigned)strtoul(optarg, NULL, 10)) < 1;
		else if (c == 'l')
			o->label = optarg;
		else if (c == 'o')
			bad = parse_op(o, optarg);
		else if (c == 'd')
			o->dry_run = 1;
		else if (c == 'R')
			*rank = atoi(optarg);
		else if (c == 'F')
			*fd = atoi(optarg);
		else if (c == 'L')
			o->logs = optarg;
		else
			bad = 1;
		if (c == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (bad) {
			fputs(usage, stderr);
			exit(2);
		}
	}
}

/* What keeps both ranks on sockets over loopback; what the caller has set wins, but for the names
 * of the hosts. */
static void rank_environment(int rank, const char *logs)
{
	static const char *const pairs[][2] = {
		{"NCCL_P2P_DISABLE", "1"},
		{"NCCL_SHM_DISABLE", "1"},
		{"NCCL_NVLS_ENABLE", "0"},
		{"NCCL_MNNVL_ENABLE", "0"},
		{"NCCL_IB_DISABLE", "1"},
		{"NCCL_SOCKET_IFNAME", "=lo"},
		{"NCCL_RAS_ENABLE", "0"},
		{"NCCL_SOCKET_FAMILY", "AF_INET"},
		{"NCCL_NET", "Socket"},
		{"NCCL_IGNORE_CPU_AFFINITY", "1"},
		{"NCCL_NET_PLUGIN", "none"},
		{"NCCL_DEBUG", "INFO"},
		{"NCCL_DEBUG_SUBSYS", "INIT,NET,P2P"},
	};
	char text[512];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		setenv(pairs[i][0], pairs[i][1], 0);
	snprintf(text, sizeof(text), "bench-host-%d", rank);
	setenv("NCCL_HOSTID", text, 1);
	snprintf(text, sizeof(text), "%s/rank%d.log", logs, rank);
	setenv("NCCL_DEBUG_FILE", text, 1);
}

/* The program again, as a rank: NCCL and the driver want a process that never forked under them. */
static pid_t start_rank(int argc, char **argv, int rank, const int fds[2], const char *logs)
{
	char rank_text[16], fd_text[16], **more;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rank_environment(rank, logs);
	close(fds[!rank]);
	fcntl(fds[rank], F_SETFD, 0);
	snprintf(rank_text, sizeof(rank_text), "%d", rank);
	snprintf(fd_text, sizeof(fd_text), "%d", fds[rank]);
	more = calloc((size_t)argc + 7, sizeof(*more));
	if (!more)
		die("calloc");
	memcpy(more, argv, (size_t)argc * sizeof(*more));
	memcpy(more + argc,
	       (char *[]){"--rank", rank_text, "--fd", fd_text, "--logs", (char *)logs},
	       6 * sizeof(*more));
	execv("/proc/self/exe", more);
	die("execv");
}

/* The worst of the ranks' ends. When one fails the other would wait for it for ever. */
static int await_ranks(pid_t *pid, unsigned timeout_s)
{
	int64_t deadline = now_ns() + (int64_t)timeout_s * 1000000000;
	int left = 2, worst = 0, told = 0;

	while (left) {
		int status, rc;
		pid_t ended = waitpid(-1, &status, WNOHANG);

		if (ended > 0) {
			rc = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
			if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
				fprintf(stderr, "nccl_p2p: rank %d died of signal %d\n",
					ended == pid[1], WTERMSIG(status));
			worst = worst ? worst : rc;
			pid[ended == pid[1]] = 0;
			left--;
		} else {
			usleep(20000);
		}
		if (worst && !told) { /* the other may have a reason of its own to say */
			deadline = now_ns() + GRACE_NS;
			told = 1;
		}
		if (left && now_ns() > deadline) {
			if (!told)
				fprintf(stderr, "nccl_p2p: not done after %u s, stopped\n",
					timeout_s);
			worst = worst ? worst : 1;
			told = 1;
			for (int i = 0; i < 2; i++)
				if (pid[i])
					kill(pid[i], SIGKILL);
		}
	}
	return worst;
}

static void remove_logs(const char *logs)
{
	char path[512];

	for (int rank = 0; rank < 2; rank++) {
		snprintf(path, sizeof(path), "%s/rank%d.log", logs, rank);
		(void)unlink(path);
	}
	(void)rmdir(logs);
}

int main(int argc, char **argv)
{
	struct p2p_options o = {.label = "default",
				.modes = "separate,grouped,single,pingpong",
				.reps = 5,
				.window = 8,
				.trips = 2000,
				.volume = 1ull << 30,
				.gpu = {0, 1},
				.timeout_s = 300};
	char logs[] = "/tmp/nccl_p2p.XXXXXX";
	int rank = -1, fd = -1, fds[2], worst;
	pid_t pid[2];

	parse_sizes(&o, "64K,1M,16M,64M,256M");
	parse(argc, argv, &o, &rank, &fd);
	check_sizes(&o);
	if (o.dry_run)
		return say_dry(&o);
	if (rank == 0 || rank == 1)
		p2p_rank(&o, rank, fd);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		die("socketpair");
	if (!mkdtemp(logs))
		die(logs);
	for (int i = 0; i < 2; i++)
		pid[i] = start_rank(argc, argv, i, fds, logs);
	close(fds[0]);
	close(fds[1]);
	worst = await_ranks(pid, o.timeout_s);
	if (worst && worst != P2P_ABSENT)
		fprintf(stderr, "nccl_p2p: failed; NCCL's logs are in %s\n", logs);
	else
		remove_logs(logs);
	return worst;
}
