/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to RxDM and the stand-in's answers: rules that follow the GPU, silence, refusals. */
#include "unit/unit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "abi/cuda.h"
#include "base/clock.h"
#include "base/error.h"
#include "descriptors.h"
#include "fakerxdm.h"
#include "topo/rxdm_client.h"

#define GPU0 0x0400 /* 0000:04:00.0 */
#define GPU2 0x0a00

struct rig {
	char dir[32], prefix[48];
	struct fakerxdm *rxdm;
	unsigned descriptors;
};

static struct rig start(struct fakerxdm_opts opts)
{
	struct rig rig = {.dir = "/tmp/tcpx-rxdm-XXXXXX", .descriptors = open_descriptors()};

	assert_non_null(mkdtemp(rig.dir));
	snprintf(rig.prefix, sizeof(rig.prefix), "%s/sockets", rig.dir);
	opts.prefix = rig.prefix;
	opts.pool_bytes = opts.pool_bytes ? opts.pool_bytes : 1 << 20;
	assert_int_equal(fakerxdm_start(&opts, &rig.rxdm), 0);
	return rig;
}

static void end(struct rig *rig)
{
	fakerxdm_stop(rig->rxdm);
	assert_int_equal(rmdir(rig->prefix), 0); /* every socket is gone */
	assert_int_equal(rmdir(rig->dir), 0);
	assert_int_equal(open_descriptors(), rig->descriptors);
}

static int64_t soon(void)
{
	return clock_after(20 * CLOCK_S_NS); /* a hang guard */
}

static tcpx_status queues_of(const char *prefix, pci_addr gpu, struct topo_rxdm_queues *out)
{
	return topo_rxdm_queues(prefix, gpu, soon(), out);
}

static void answers(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){.pool_bytes = 5 << 20});
	struct topo_rxdm_queues queues;
	struct wire_rxdm_memory memory;
	char slash[64];

	(void)state;
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_OK);
	assert_int_equal(queues.count, 4);
	assert_int_equal(queues.ids[0], 8);
	snprintf(slash, sizeof(slash), "%s//", rig.prefix);
	assert_int_equal(queues_of(slash, 0x8b00, &queues), TCPX_OK);
	assert_int_equal(queues.ids[3], 15);
	assert_int_equal(queues_of(rig.prefix, 0x1100, &queues), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->what, "0000:11:00.0"));
	assert_non_null(strstr(error_last()->what, "not found"));
	assert_int_equal(topo_rxdm_memory(rig.prefix, GPU0, soon(), &memory), TCPX_OK);
	assert_int_equal(memory.size_bytes, 6 << 20); /* whole pages of 2 MiB */
	assert_int_equal(memory.align_bytes, 2 << 20);
	/* a socket for each GPU: one that it does not have has none */
	assert_int_equal(topo_rxdm_memory(rig.prefix, 0x1100, soon(), &memory), TCPX_ERR_REFUSED);
	end(&rig);
}

static void what_goes_wrong(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){.mode = FAKERXDM_REFUSE});
	struct topo_rxdm_queues queues = {.count = 77};
	char longer[256];

	(void)state;
	assert_int_equal(queues_of("/nowhere/at/all", GPU0, &queues), TCPX_ERR_REFUSED);
	assert_non_null(strstr(error_last()->what, "/nowhere/at/all/queue_ids_by_gpu"));
	assert_non_null(strstr(error_last()->next, TOPO_RXDM_PREFIX));
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(queues_of(longer, GPU0, &queues), TCPX_ERR_INVALID);
	assert_int_equal(queues_of("", GPU0, &queues), TCPX_ERR_INVALID);
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_ERR_NOT_FOUND);
	assert_non_null(strstr(error_last()->what, "told to refuse"));
	fakerxdm_mode_set(rig.rxdm, FAKERXDM_HANG_UP, 0);
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_ERR_PROTOCOL);
	fakerxdm_mode_set(rig.rxdm, FAKERXDM_GARBAGE, 0);
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_ERR_PROTOCOL);
	fakerxdm_mode_set(rig.rxdm, FAKERXDM_SILENT, 0);
	assert_int_equal(topo_rxdm_queues(rig.prefix, GPU0, clock_after(20 * CLOCK_MS_NS), &queues),
			 TCPX_ERR_TIMED_OUT);
	fakerxdm_mode_set(rig.rxdm, FAKERXDM_OK, 3600 * 1000);
	assert_int_equal(topo_rxdm_queues(rig.prefix, GPU0, clock_after(20 * CLOCK_MS_NS), &queues),
			 TCPX_ERR_TIMED_OUT);
	assert_int_equal(topo_rxdm_queues(rig.prefix, GPU0, clock_now_ns() - 1, &queues),
			 TCPX_ERR_TIMED_OUT);
	assert_int_equal(queues.count, 77); /* untouched by all of them */
	fakerxdm_mode_set(rig.rxdm, FAKERXDM_OK, 1);
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_OK);
	end(&rig);
}

/* The time that is left when a socket's time limit is set may be any number of nanoseconds, also
 * less than a microsecond short of a whole second. */
static void any_time_may_be_left(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){0});
	struct topo_rxdm_queues queues;

	(void)state;
	for (int64_t ns = 0; ns < 10000; ns += 50)
		assert_int_equal(topo_rxdm_queues(rig.prefix, GPU0,
						  clock_after(20 * CLOCK_S_NS + ns), &queues),
				 TCPX_OK);
	end(&rig);
}

/* Who listens but never accepts: the backlog fills up, and then connecting has to end as well. */
static void nobody_accepts(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){0});
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct topo_rxdm_queues queues;
	char dir[64];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	snprintf(dir, sizeof(dir), "%s/full", rig.dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/queue_ids_by_gpu", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(connect(first, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(topo_rxdm_queues(dir, GPU0, clock_after(20 * CLOCK_MS_NS), &queues),
			 TCPX_ERR_TIMED_OUT);
	close(fd);
	close(first);
	assert_int_equal(queues_of(dir, GPU0, &queues), TCPX_ERR_REFUSED); /* a leftover socket */
	unlink(addr.sun_path);
	rmdir(dir);
	end(&rig);
}

/* A question as a plugin asks it, over a socket of its own; the answer's bytes. */
static size_t ask(const struct rig *rig, const char *name, const struct wire_rxdm *question,
		  uint8_t *out, size_t cap, int *out_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct iovec iov = {out, cap};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control)};
	uint8_t bytes[256];
	size_t len = wire_rxdm_encode(question, bytes, sizeof(bytes));
	ssize_t got;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", rig->prefix, name);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	for (size_t i = 0; i < len; i++) /* in pieces, as a stream may come */
		assert_int_equal(send(fd, bytes + i, 1, MSG_NOSIGNAL), 1);
	got = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	assert_true(got > 0);
	if (out_fd && CMSG_FIRSTHDR(&msg))
		memcpy(out_fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(*out_fd));
	close(fd);
	return (size_t)got;
}

static struct wire_rxdm rule_of(const char *gpu, const char *local, int port)
{
	struct wire_rxdm rule = {
		.kind = WIRE_RXDM_RULE,
		.rule = {.flow = WIRE_RXDM_TCP4, .queue = -1, .src = {"127.0.0.9", 1000}},
	};

	snprintf(rule.gpu, sizeof(rule.gpu), "%s", gpu);
	snprintf(rule.rule.dst.ip, sizeof(rule.rule.dst.ip), "%s", local);
	rule.rule.dst.port = port;
	return rule;
}

static void assert_ok(const struct rig *rig, const char *name, struct wire_rxdm rule)
{
	uint8_t bytes[512];
	size_t len = ask(rig, name, &rule, bytes, sizeof(bytes), NULL);

	assert_golden("rxdm_ok", bytes, len);
}

static struct wire_rxdm refusal(const struct rig *rig, struct wire_rxdm rule, uint8_t bytes[512])
{
	size_t len = ask(rig, "rx_rule_manager", &rule, bytes, 512, NULL);
	struct wire_rxdm answer;

	assert_int_equal(wire_rxdm_decode(bytes + WIRE_RXDM_HEAD, len - WIRE_RXDM_HEAD, &answer),
			 TCPX_OK);
	assert_int_equal(answer.kind, WIRE_RXDM_BYTES);
	assert_int_not_equal(answer.status, 0);
	return answer;
}

/* The reason for the pairing rule: eth2's flow for GPU 0 is steered on eth1, and that is "Ok.". */
static void rules_follow_the_gpu(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){0});
	struct fakerxdm_rule rules[8];
	struct fakerxdm_counts counts;

	(void)state;
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:04:00.0", "127.0.1.1", 40000));
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:04:00.0", "127.0.2.1", 40001));
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:04:00.0", "127.0.2.1", 40001)); /* again */
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:0a:00.0", "127.0.2.1", 40002));
	assert_ok(&rig, "rx_rule_manager", rule_of("", "127.0.3.1", 40003)); /* by address */
	assert_int_equal(fakerxdm_rules(rig.rxdm, rules, 8), 4);
	assert_string_equal(rules[0].nic, "eth1");
	assert_int_equal(rules[0].elsewhere, 0);
	assert_int_equal(rules[0].queue, 8);
	assert_string_equal(rules[1].nic, "eth1");
	assert_int_equal(rules[1].elsewhere, 1);
	assert_int_equal(rules[1].queue, 9); /* the one with the fewest flows */
	assert_string_equal(rules[1].dst, "127.0.2.1:40001");
	assert_string_equal(rules[2].nic, "eth2");
	assert_int_equal(rules[2].elsewhere, 0);
	assert_int_equal(rules[3].gpu, 0x8400);
	assert_ok(&rig, "rx_rule_uninstall", rule_of("0000:04:00.0", "127.0.2.1", 40001));
	assert_ok(&rig, "rx_rule_uninstall", rule_of("0000:04:00.0", "127.0.2.1", 40001));
	assert_int_equal(fakerxdm_rules(rig.rxdm, rules, 8), 3);
	fakerxdm_counts(rig.rxdm, &counts);
	assert_int_equal(counts.installed, 4);
	assert_int_equal(counts.duplicates, 1);
	assert_int_equal(counts.uninstalled, 1);
	end(&rig);
}

static void rules_that_are_refused(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){.max_rules = 1});
	struct wire_rxdm rule = rule_of("0000:04:00.0", "127.0.1.1", 1);
	uint8_t bytes[512];

	(void)state;
	rule.rule.flow = WIRE_RXDM_TCP6;
	refusal(&rig, rule, bytes);
	refusal(&rig, rule_of("0000:77:00.0", "127.0.1.1", 1), bytes);
	refusal(&rig, rule_of("04:00.0", "127.0.1.1", 1), bytes); /* spelt otherwise */
	refusal(&rig, rule_of("", "127.0.9.9", 1), bytes);
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:04:00.0", "127.0.1.1", 1));
	refusal(&rig, rule_of("0000:05:00.0", "127.0.1.1", 2), bytes); /* eth1 is full */
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:0a:00.0", "127.0.2.1", 3));
	end(&rig);
}

static void the_pool_comes_as_a_descriptor(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){0});
	struct wire_rxdm question = {
		.kind = WIRE_RXDM_BYTES, .bytes = (const uint8_t *)"0000:04:00.0", .bytes_len = 12};
	int first = -1, second = -1;
	uint8_t byte[8];
	struct stat st;
	char *map;

	(void)state;
	assert_int_equal(ask(&rig, "get_gpu_fd_0000:04:00.0", &question, byte, 8, &first), 1);
	assert_int_equal(ask(&rig, "get_gpu_fd_0000:04:00.0", &question, byte, 8, &second), 1);
	assert_int_equal(fstat(first, &st), 0);
	assert_int_equal(st.st_size, 2 << 20);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, first, 0);
	assert_true(map != MAP_FAILED);
	strcpy(map, "the same memory");
	assert_int_equal(pread(second, byte, 8, 0), 8);
	assert_memory_equal(byte, "the same", 8);
	munmap(map, 4096);
	close(first);
	close(second);
	end(&rig);
}

/* Memory of the driver's, exported: whoever imports it has the same. */
static void the_pool_may_be_cuda_memory(void **state)
{
	struct rig rig = start((struct fakerxdm_opts){.cuda = FAKECUDA,
						      .topo = "eth1=127.0.1.1:06:00.0:3a,3b,3c"});
	struct wire_rxdm question = {
		.kind = WIRE_RXDM_BYTES, .bytes = (const uint8_t *)"0000:3b:00.0", .bytes_len = 12};
	cuda_result (*import)(cuda_alloc * out, void *handle, int type);
	cuda_result (*release)(cuda_alloc alloc);
	void *driver = dlopen(FAKECUDA, RTLD_NOW | RTLD_LOCAL);
	struct wire_rxdm_memory memory;
	cuda_alloc alloc;
	uint8_t byte[8];
	int fd = -1;

	(void)state;
	assert_int_equal(ask(&rig, "get_gpu_fd_0000:3b:00.0", &question, byte, 8, &fd), 1);
	*(void **)&import = dlsym(driver, "cuMemImportFromShareableHandle");
	*(void **)&release = dlsym(driver, "cuMemRelease");
	assert_int_equal(import(&alloc, (void *)(intptr_t)fd, CUDA_HANDLE_FD), CUDA_OK);
	assert_int_equal(release(alloc), CUDA_OK);
	close(fd);
	fd = -1;
	assert_int_equal(topo_rxdm_memory(rig.prefix, 0x3b00, soon(), &memory), TCPX_OK);
	assert_true(memory.size_bytes >= 1 << 20 && memory.size_bytes % memory.align_bytes == 0);
	/* a GPU that this machine does not have: a byte without a descriptor */
	assert_int_equal(ask(&rig, "get_gpu_fd_0000:3c:00.0", &question, byte, 8, &fd), 1);
	assert_int_equal(fd, -1);
	end(&rig);
}

/* Starts the program with its output in a pipe; returns when it is ready. */
static pid_t start_program(char *const argv[])
{
	char text[8] = "";
	int out[2];
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		execv(FAKERXDM, argv);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], text, sizeof(text) - 1), 6);
	assert_string_equal(text, "ready\n");
	close(out[0]);
	return pid;
}

static void assert_ends(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void the_program(void **state)
{
	struct rig rig = {.dir = "/tmp/tcpx-rxdm-XXXXXX"};
	char *argv[] = {"fakerxdm",
			"--prefix",
			rig.prefix,
			"--mode",
			"refuse",
			"--topo",
			"a=127.0.0.1:06:00.0:04",
			NULL};
	struct wire_rxdm question = {.kind = WIRE_RXDM_REGISTER, .client = 1};
	struct topo_rxdm_queues queues;
	uint8_t bytes[64];
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(rig.dir));
	snprintf(rig.prefix, sizeof(rig.prefix), "%s/sockets", rig.dir);
	pid = start_program(argv);
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_ERR_NOT_FOUND);
	kill(pid, SIGTERM);
	assert_ends(pid);
	argv[4] = "ok";
	pid = start_program(argv);
	assert_int_equal(queues_of(rig.prefix, GPU0, &queues), TCPX_OK);
	assert_int_equal(queues_of(rig.prefix, GPU2, &queues), TCPX_ERR_NOT_FOUND);
	ask(&rig, "rxdm_application_registry", &question, bytes, sizeof(bytes), NULL);
	assert_ends(pid); /* by itself: the last application left */
	assert_int_equal(rmdir(rig.prefix), 0);
	assert_int_equal(rmdir(rig.dir), 0);
}

static void last_left(void *arg)
{
	uint64_t one = 1;

	assert_int_equal(write(*(int *)arg, &one, sizeof(one)), sizeof(one));
}

/* The real one ends itself when the last registered application leaves. */
static void the_last_application_leaves(void **state)
{
	int pipe_fds[2];
	struct wire_rxdm question = {.kind = WIRE_RXDM_REGISTER, .client = 1};
	struct rig rig;
	uint8_t bytes[64];

	(void)state;
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	rig = start((struct fakerxdm_opts){.last_left = last_left, .arg = &pipe_fds[1]});
	ask(&rig, "rxdm_application_registry", &question, bytes, sizeof(bytes), NULL);
	assert_int_equal(read(pipe_fds[0], bytes, 8), 8); /* it hung up, and that was seen */
	end(&rig);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void the_statistics_file(void **state)
{
	char stats[] = "/tmp/tcpx-rxdm-stats-XXXXXX", text[1024] = "";
	struct rig rig;
	int fd = mkstemp(stats);

	(void)state;
	close(fd);
	rig = start((struct fakerxdm_opts){.stats = stats});
	assert_ok(&rig, "rx_rule_manager", rule_of("0000:04:00.0", "127.0.2.1", 7));
	end(&rig);
	fd = open(stats, O_RDONLY | O_CLOEXEC);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "\"installed\": 1,"));
	assert_non_null(strstr(text, "\"dst\": \"127.0.2.1:7\", \"gpu\": \"0000:04:00.0\", "
				     "\"nic\": \"eth1\", \"queue\": 8, \"elsewhere\": true"));
	close(fd);
	unlink(stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(what_goes_wrong),
		cmocka_unit_test(any_time_may_be_left),
		cmocka_unit_test(nobody_accepts),
		cmocka_unit_test(rules_follow_the_gpu),
		cmocka_unit_test(rules_that_are_refused),
		cmocka_unit_test(the_pool_comes_as_a_descriptor),
		cmocka_unit_test(the_pool_may_be_cuda_memory),
		cmocka_unit_test(the_last_application_leaves),
		cmocka_unit_test(the_statistics_file),
		cmocka_unit_test(the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
