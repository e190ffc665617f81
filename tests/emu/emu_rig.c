/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the emulator's v7 table from one thread: see emu_rig.h. */
#include "emu_rig.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

struct rig rig;

/* What a case leaves open is closed behind it, for the checkers of leaks. */
#define HELD_MAX 32
static struct held {
	void *comm, *mr;
	uint8_t *buffer;
} held[HELD_MAX];

static void hold(void *comm, void *mr, uint8_t *buffer)
{
	for (int i = 0; i < HELD_MAX; i++) {
		if (!held[i].comm) {
			held[i] = (struct held){comm, mr, buffer};
			return;
		}
	}
	CHECK_MSG(0, "more comms than the rig holds");
}

static void let_go(const void *comm)
{
	for (int i = 0; i < HELD_MAX; i++) {
		if (held[i].comm == comm)
			memset(&held[i], 0, sizeof(held[i]));
	}
}

/* Where a violation ends the process it may be a helper that does. */
static void close_held(void)
{
	const char *fatal = getenv("TCPXEMU_FATAL");

	for (int i = 0; i < HELD_MAX && fatal && !strcmp(fatal, "rc"); i++) {
		if (!held[i].comm)
			continue;
		rig.net->close_send(held[i].comm);
		rig.net->dereg_mr(held[i].comm, held[i].mr);
		free(held[i].buffer);
	}
}

void rig_log(int level, unsigned long subsys, const char *file, int line, const char *format, ...)
{
	va_list ap;

	(void)subsys;
	if (level > 2 && !getenv("EMU_RIG_VERBOSE"))
		return;
	va_start(ap, format);
	fprintf(stderr, "%s:%d: ", file, line);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
}

void rig_env(void)
{
	setenv("NCCL_DYNAMIC_CHUNK_SIZE", "524288", 0);
	setenv("TCPXEMU_FATAL", "rc", 0);
	signal(SIGPIPE, SIG_IGN);
	atexit(close_held);
}

static void *symbol(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	CHECK_MSG(found, "%s: not exported", name);
	return found;
}

int rig_load(void)
{
	const char *path = getenv("TCPXEMU_LIBRARY"); /* where it was copied to */
	void *handle = dlopen(path ? path : TCPXEMU, RTLD_NOW | RTLD_LOCAL), *found;

	CHECK_MSG(handle, "%s", dlerror());
	rig.net = symbol(handle, "ncclNetPlugin_v7");
#define RIG_FIND(member)                                                                           \
	found = symbol(handle, "tcpxemu_" #member);                                                \
	memcpy(&rig.member, &found, sizeof(found));
	RIG_FIND(set_gpu)
	RIG_FIND(get_gpu)
	RIG_FIND(stats)
	RIG_FIND(stats_wait)
	RIG_FIND(violations)
	RIG_FIND(write_stats)
#undef RIG_FIND
	return rig.net->init(rig_log);
}

void rig_start(void)
{
	rig_env();
	CHECK_EQ(rig_load(), 0);
}

void rig_listen(struct rig_pair *pair, int dev, int gpu)
{
	memset(pair, 0, sizeof(*pair));
	rig.set_gpu(gpu);
	CHECK_EQ(rig.net->listen(dev, pair->handle, &pair->listen), 0);
}

int rig_meet(struct rig_pair *pair, int send_dev, bool devhandle)
{
	int rc;

	pair->devhandle = (struct emu_device_handle *)(void *)pair->store;
	while (!pair->send || !pair->recv) {
		if (!pair->send) {
			rc = rig.net->connect(send_dev, pair->handle, &pair->send, NULL);
			if (rc)
				return rc;
		}
		if (!pair->recv) {
			rc = rig.net->accept(pair->listen, &pair->recv,
					     devhandle ? &pair->devhandle : NULL);
			if (rc)
				return rc;
		}
		sched_yield();
	}
	return 0;
}

void rig_register(struct rig_pair *pair, int type)
{
	pair->type = type;
	pair->from = aligned_alloc(EMU_PAGE, RIG_BUFFER);
	pair->to = aligned_alloc(EMU_PAGE, RIG_BUFFER);
	CHECK(pair->from && pair->to);
	rig_fill(pair->from, RIG_BUFFER, 1);
	memset(pair->to, 0, RIG_BUFFER);
	CHECK_EQ(rig.net->reg_mr(pair->send, pair->from, (int)RIG_BUFFER, type, &pair->send_mr), 0);
	CHECK_EQ(rig.net->reg_mr(pair->recv, pair->to, (int)RIG_BUFFER, type, &pair->recv_mr), 0);
	hold(pair->send, pair->send_mr, pair->from);
	hold(pair->recv, pair->recv_mr, pair->to);
}

void rig_pair_open(struct rig_pair *pair, int dev, int gpu, int type)
{
	rig_listen(pair, dev, gpu);
	CHECK_EQ(rig_meet(pair, dev, true), 0);
	CHECK_EQ(rig.net->close_listen(pair->listen), 0);
	rig_register(pair, type);
}

void rig_pair_close(struct rig_pair *pair)
{
	let_go(pair->send);
	let_go(pair->recv);
	CHECK_EQ(rig.net->dereg_mr(pair->send, pair->send_mr), 0);
	CHECK_EQ(rig.net->dereg_mr(pair->recv, pair->recv_mr), 0);
	CHECK_EQ(rig.net->close_send(pair->send), 0);
	CHECK_EQ(rig.net->close_recv(pair->recv), 0);
	free(pair->from);
	free(pair->to);
}

int rig_isend(struct rig_pair *pair, size_t offset, size_t size, void **out)
{
	return rig.net->isend(pair->send, pair->from + offset, (int)size, 0, pair->send_mr, out);
}

int rig_irecv(struct rig_pair *pair, size_t offset, size_t size, void **out)
{
	void *at = pair->to + offset;
	int bytes = (int)size, tag = 0;
	int rc = rig.net->irecv(pair->recv, 1, &at, &bytes, &tag, &pair->recv_mr, out);

	if (!rc)
		pair->receives++;
	return rc;
}

void rig_wait(void *request)
{
	int done = 0;

	while (!done) {
		CHECK_EQ(rig.net->test(request, &done, NULL), 0);
		sched_yield();
	}
}

void rig_wait_both(void *send, void *recv)
{
	int sent = 0, received = 0;

	while (!sent || !received) {
		if (!sent)
			CHECK_EQ(rig.net->test(send, &sent, NULL), 0);
		if (!received)
			CHECK_EQ(rig.net->test(recv, &received, NULL), 0);
		sched_yield();
	}
}

bool rig_poll(void *request, int times, int *out_rc)
{
	int done = 0;

	*out_rc = 0;
	for (int i = 0; i < times && !done && !*out_rc; i++) {
		*out_rc = rig.net->test(request, &done, NULL);
		sched_yield();
	}
	return done;
}

static struct emu_meta *meta_of(struct rig_pair *pair, uint64_t *out_bounce)
{
	const struct emu_device_queue *queue = pair->devhandle->handle;

	*out_bounce = queue->bounce;
	return (struct emu_meta *)(uintptr_t)queue->meta;
}

uint64_t rig_count(struct rig_pair *pair, uint64_t receive)
{
	uint64_t bounce;
	struct emu_meta *meta = meta_of(pair, &bounce);

	return atomic_load_explicit(&meta->cnt[receive % EMU_SLOTS], memory_order_acquire);
}

size_t rig_unpack(struct rig_pair *pair, uint64_t receive, uint8_t *to)
{
	uint64_t bounce, count = rig_count(pair, receive);
	const struct emu_meta *meta = meta_of(pair, &bounce);
	size_t sum = 0;

	CHECK(count <= EMU_FRAGS);
	for (uint64_t i = 0; i < count; i++) {
		struct emu_load load = meta->mem[receive % EMU_SLOTS][i];

		CHECK(load.len >= 1 && load.len <= EMU_PAGE);
		CHECK(load.src / EMU_PAGE == (load.src + load.len - 1) / EMU_PAGE);
		memcpy(to + load.dst, (const uint8_t *)(uintptr_t)bounce + load.src, load.len);
		sum += load.len;
	}
	return sum;
}

void rig_message(struct rig_pair *pair, size_t size)
{
	void *send, *recv;
	uint64_t receive = pair->receives;

	memset(pair->to, 0, size + 1);
	CHECK_EQ(rig_irecv(pair, 0, size, &recv), 0);
	CHECK_EQ(rig_isend(pair, 0, size, &send), 0);
	rig_wait_both(send, recv);
	if (pair->type == EMU_CUDA)
		CHECK_EQ(rig_unpack(pair, receive, pair->to), size);
	else
		CHECK_EQ(rig_count(pair, receive), 0);
	CHECK(memcmp(pair->to, pair->from, size) == 0 && pair->to[size] == 0);
	CHECK_EQ(rig.net->irecv_consumed(pair->recv, 1, recv), 0);
}

void rig_fill(uint8_t *at, size_t size, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word = (seed + i) * 0x9e3779b97f4a7c15ull;

		word ^= word >> 29;
		memcpy(at + i, &word, sizeof(word));
	}
}

void rig_expect(const char *name, uint64_t count)
{
	CHECK_MSG(rig.violations(name) == count, "%s: %llu times, not %llu", name,
		  (unsigned long long)rig.violations(name), (unsigned long long)count);
	CHECK_EQ(rig.violations(NULL), count);
}

int rig_child(void (*run)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(arg);
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

void rig_far_start(struct rig_far *out, void (*run)(int fd, void *arg), void *arg)
{
	int fds[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	fflush(NULL);
	out->pid = fork();
	CHECK(out->pid >= 0);
	if (out->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		run(fds[1], arg);
		exit(0);
	}
	close(fds[1]);
	out->fd = fds[0];
}

int rig_far_end(struct rig_far *far)
{
	int status;

	close(far->fd);
	CHECK_EQ(waitpid(far->pid, &status, 0), far->pid);
	return status;
}

void rig_far_write(int fd, const void *bytes, size_t size)
{
	CHECK_EQ(write(fd, bytes, size), size);
}

void rig_far_read(int fd, void *bytes, size_t size)
{
	CHECK_EQ(recv(fd, bytes, size, MSG_WAITALL), size);
}
