/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the peer reads from where it lies: it is the caller's again when nobody reads it. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static const char *copy_name(struct env *env)
{
	static tcpx_peer_info info;

	info.sz = sizeof(info);
	do /* a worker that is busy for long owes the first sample of its channel */
		OK(tcpx_peer_query(env->session, env->peer, &info));
	while (!*info.copy && !strcmp(config.transport, "local"));
	return info.copy;
}

static void case_copy_named(struct env *env)
{
	const char *one = getenv("TCPX_ONE_COPY"), *want = "ring";

	if (strcmp(config.transport, "local") != 0)
		want = "";
	else if (config.processes == 1)
		want = "memcpy";
	else if (one && *one == '1')
		want = "one-copy";
	CHECK_MSG(!strcmp(copy_name(env), want), "'%s', not '%s'", copy_name(env), want);
}

/* A source whose pages are not there: whoever reads it stays inside until they are given. */
struct lease {
	int fd;
	uint8_t *data;
	tcpx_region region;
	tcpx_request request;
};

/* Whether the thread that waits for a page belongs to this process. This end itself reads pieces
 * that are too short for being lent. */
static bool waits_here(int fd)
{
	struct uffd_msg msg;
	char task[64];

	CHECK(read(fd, &msg, sizeof(msg)) == sizeof(msg));
	snprintf(task, sizeof(task), "/proc/self/task/%u", msg.arg.pagefault.feat.ptid);
	return access(task, F_OK) == 0;
}

/* Starts a transfer whose source has no pages, and returns when a thread waits for one. Returns 0
 * if that is not possible here. */
static int lease_start(struct env *env, struct lease *lease)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_THREAD_ID};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct pollfd poller = {.events = POLLIN};
	tcpx_segment segment = {.length = MIB};

	lease->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (lease->fd < 0)
		return 0; /* needs a privilege */
	lease->data = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(lease->data != MAP_FAILED);
	lease->region = near_host(env, lease->data, MIB, 0);
	range.range.start = (uintptr_t)lease->data;
	range.range.len = MIB;
	CHECK(ioctl(lease->fd, UFFDIO_API, &api) == 0);
	CHECK(ioctl(lease->fd, UFFDIO_REGISTER, &range) == 0);
	segment.local = lease->region;
	segment.remote = far_buf(env, 0, MIB, RW, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
			      &lease->request));
	poller.fd = lease->fd;
	CHECK(poll(&poller, 1, (int)(LONG_NS / 1000000)) == 1 && poller.revents == POLLIN);
	return 1;
}

/* The pages come: the copy goes on. */
static void lease_feed(struct lease *lease)
{
	struct uffdio_zeropage zero = {.range = {(uintptr_t)lease->data, MIB}};

	CHECK(ioctl(lease->fd, UFFDIO_ZEROPAGE, &zero) == 0);
}

/* The memory is the caller's again, and may go. */
static void lease_end(struct env *env, struct lease *lease)
{
	tcpx_status status;

	OK(tcpx_region_deregister(env->session, lease->region, LONG_NS));
	CHECK(munmap(lease->data, MIB) == 0);
	close(lease->fd);
	status = near_wait(env, lease->request, NULL);
	CHECK_MSG(status != TCPX_IN_PROGRESS, "%s", tcpx_status_name(status));
	OK(tcpx_request_release(env->session, lease->request));
}

/* Into the middle of the peer's reading. 0: not possible here. */
static int lease_begin(struct env *env, struct lease *lease)
{
	if (!*copy_name(env) || !strcmp(copy_name(env), "ring"))
		return 0;
	if (!lease_start(env, lease))
		return 0;
	while (config.processes > 1 && waits_here(lease->fd)) {
		lease_feed(lease);
		lease_end(env, lease);
		if (!lease_start(env, lease))
			return 0;
	}
	EXPECT(tcpx_region_deregister(env->session, lease->region, 50 * MS), TCPX_ERR_BUSY);
	EXPECT(tcpx_request_wait(env->session, lease->request, 0, NULL), TCPX_IN_PROGRESS);
	return 1;
}

static void case_lease_answer(struct env *env)
{
	struct lease lease;

	for (int i = 0; i < 3 && lease_begin(env, &lease); i++) {
		lease_feed(&lease);
		lease_end(env, &lease);
	}
}

/* Returns when the first thread has stopped: every thread is then told to, also one that is inside
 * the kernel and cannot yet. */
static void stop_first_thread(pid_t pid)
{
	int status;

	CHECK(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
	CHECK(kill(pid, SIGSTOP) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	if (status >> 16 == 0) { /* it was the one to take the signal */
		CHECK(ptrace(PTRACE_CONT, pid, NULL, SIGSTOP) == 0);
		CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	}
	CHECK_EQ(status >> 16, PTRACE_EVENT_STOP);
	CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0); /* and stays stopped */
}

/* The peer is stopped inside its reading: it stops on its way back from the kernel. */
static int lease_stop(struct env *env, struct lease *lease)
{
	int status;

	if (!lease_begin(env, lease))
		return 0;
	stop_first_thread(env->pid);
	lease_feed(lease);
	CHECK(waitpid(env->pid, &status, WUNTRACED) == env->pid && WIFSTOPPED(status));
	EXPECT(tcpx_region_deregister(env->session, lease->region, 100 * MS), TCPX_ERR_BUSY);
	EXPECT(tcpx_request_wait(env->session, lease->request, 0, NULL), TCPX_IN_PROGRESS);
	return 1;
}

static void case_lease_stopped(struct env *env)
{
	struct lease lease;

	if (!lease_stop(env, &lease))
		return;
	CHECK(kill(env->pid, SIGCONT) == 0);
	lease_end(env, &lease);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
}

static void case_lease_killed(struct env *env)
{
	struct lease lease;
	int status;

	if (!lease_stop(env, &lease))
		return;
	CHECK(kill(env->pid, SIGKILL) == 0);
	lease_end(env, &lease); /* before anybody reaps it */
	CHECK(waitpid(env->pid, &status, 0) == env->pid);
	env->pid = 0;
	close(env->fd);
}

/* Stopped until it counts as dead: its request ends only when it lets go of the memory. */
static void case_lease_dead(struct env *env)
{
	struct env_tune tune = {.stopped_ms = 3000};
	struct lease lease;

	env_open_tuned(env, &tune, NULL);
	if (!lease_stop(env, &lease))
		return;
	near_event(env, TCPX_EVENT_PEER_DOWN);
	EXPECT(tcpx_region_deregister(env->session, lease.region, 100 * MS), TCPX_ERR_BUSY);
	EXPECT(tcpx_request_wait(env->session, lease.request, 0, NULL), TCPX_IN_PROGRESS);
	CHECK(kill(env->pid, SIGCONT) == 0);
	lease_end(env, &lease);
}

/* A peer that is stopped outside of a copy has nothing of ours. */
static void case_dereg_stopped(struct env *env)
{
	tcpx_segment segment = {.length = 16 * MIB};
	tcpx_request request;
	tcpx_status status;
	struct buf buf;

	buf_make(&buf, segment.length, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, segment.length, RW, 0);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	far_stop(env);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL, &request));
	/* Long enough for a worker to send, or to lend, what the peer does not take. */
	EXPECT(tcpx_request_wait(env->session, request, 50 * MS, NULL), TCPX_IN_PROGRESS);
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	buf_free(&buf);
	CHECK(kill(env->pid, SIGCONT) == 0);
	status = near_wait(env, request, NULL);
	CHECK_MSG(status == TCPX_ERR_DEREGISTERED, "%s", tcpx_status_name(status));
	OK(tcpx_request_release(env->session, request));
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
}

/* The peer reads what is not mapped: its request ends all the same. */
static void unmapped_for_a_reader(struct env *env, const struct buf *buf)
{
	struct far_start read = {.op = TCPX_OP_READ, .len = 256 * KIB};
	tcpx_region region = near_register(env, buf, RW);

	far_import(env, 0, region);
	for (int gone = 1; gone >= 0; gone--) {
		CHECK(mprotect(buf->map + 4096, buf->map_bytes - 8192,
			       gone ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
		OK(far_start(env, (uint32_t)gone, &read));
		EXPECT(far_wait(env, (uint32_t)gone, LONG_NS, NULL, NULL),
		       gone ? TCPX_ERR_REMOTE : TCPX_OK);
	}
	CHECK_EQ(far_pattern(env, 0, 0, 256 * KIB, 1, 0), -1);
}

/* The peer writes to what is not mapped: that request ends, and nothing else. */
static void unmapped_for_a_writer(struct env *env, const struct buf *buf)
{
	struct far_start write = {.op = TCPX_OP_WRITE, .len = 512 * KIB};
	tcpx_region region = near_register(env, buf, RW);

	far_import(env, 0, region);
	for (int gone = 1; gone >= 0; gone--) {
		/* its beginning may come with a header, and is copied then */
		CHECK(mprotect(buf->map + 64 * KIB, buf->map_bytes - 68 * KIB,
			       gone ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
		OK(far_start(env, (uint32_t)gone, &write));
		EXPECT(far_wait(env, (uint32_t)gone, LONG_NS, NULL, NULL),
		       gone ? TCPX_ERR_REMOTE : TCPX_OK);
	}
	CHECK_EQ(tcpx_peer_flush(env->session, env->peer, LONG_NS), TCPX_OK);
}

/* A source that is not mapped: the sender is told why, the receiver gets nothing it could take for
 * data, and the link lives. Where the library itself copies there is no such grace. */
static void case_source_unmapped(struct env *env)
{
	/* One chunk: nothing can tell the receiver but the chunk itself. */
	struct far_start recv = {.op = TCPX_OP_RECV, .len = 256 * KIB};
	tcpx_segment segment = {.length = 256 * KIB};
	/* A plugin says nothing: its silence ends a channel, and the next one the request. */
	tcpx_status why = conform_plugin() ? TCPX_ERR_CHANNEL_LOST : TCPX_ERR_INVALID;
	struct buf buf;

	if (*copy_name(env) && strcmp(copy_name(env), "one-copy") != 0)
		return;
	if (*copy_name(env) && config.filters && strstr(config.filters, "short"))
		return; /* small rests of a piece are copied, by this process */
	buf_make(&buf, MIB, 0);
	buf_fill(&buf, 0, MIB, 1, 0);
	segment.local = near_register(env, &buf, 0);
	far_buf(env, 0, MIB, RW, 0);
	for (int gone = 1; gone >= 0; gone--) {
		tcpx_request request;

		CHECK(mprotect(buf.map + 4096, buf.map_bytes - 8192,
			       gone ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
		OK(far_start(env, (uint32_t)gone, &recv));
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &segment, 1, NULL,
				      &request));
		EXPECT(near_wait(env, request, NULL), gone ? why : TCPX_OK);
		CHECK((far_wait(env, (uint32_t)gone, LONG_NS, NULL, NULL) == TCPX_OK) == !gone);
	}
	CHECK_EQ(far_pattern(env, 0, 0, 256 * KIB, 1, 0), -1);
	unmapped_for_a_reader(env, &buf);
	if (!*copy_name(env) && !conform_plugin())
		unmapped_for_a_writer(env, &buf);
}

const struct case_row cases_lease[] = {
	{"source_unmapped", case_source_unmapped, CASE_PLAIN},
	{"copy_named", case_copy_named, 0},
	{"lease_answer", case_lease_answer, CASE_PLAIN},
	{"lease_stopped", case_lease_stopped, CASE_TWO | CASE_PLAIN},
	{"lease_killed", case_lease_killed, CASE_TWO | CASE_PLAIN},
	{"lease_dead", case_lease_dead, CASE_TWO | CASE_BARE | CASE_HEAVY | CASE_PLAIN},
	{"dereg_stopped", case_dereg_stopped, CASE_TWO | CASE_PLAIN},
	{0},
};
