/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the two sides, and the near side's way to the far one. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include "conform.h"

static const char *loopback(void)
{
	return config.family == 6 ? "::1" : "127.0.0.1";
}

const char *conform_bind(void)
{
	return config.near_bind ? config.near_bind : loopback();
}

const char *conform_far(void)
{
	static char first[64];

	if (!config.far_bind)
		return loopback();
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(config.far_bind, ","), config.far_bind);
	return first;
}

static void address(char out[64], const char *host, uint16_t port)
{
	snprintf(out, 64, config.family == 6 ? "[%.*s]:%u" : "%.*s:%u", (int)strcspn(host, ","),
		 host, port);
}

void conform_address(char out[64], uint16_t port)
{
	address(out, conform_far(), port);
}

void conform_near_address(char out[64], uint16_t port)
{
	address(out, conform_bind(), port);
}

/* What starts the program again as the far process; option is a part of it. */
static char **far_argv(int fd, char option[32])
{
	int argc = 0;
	char **argv;

	while (program[argc])
		argc++;
	argv = calloc((size_t)argc + 2, sizeof(*argv));
	CHECK(argv);
	snprintf(option, 32, "--far-process=%d", fd);
	memcpy(argv, program, (size_t)argc * sizeof(*argv));
	argv[argc] = option;
	return argv;
}

/* A CUDA driver does not survive a fork. Nor does a fork beside the threads of a session: whatever
 * they had locked, a sanitizer's allocator too, is locked for ever in the child. */
static bool far_is_program(const struct env *env)
{
	return env->session || config.mem.kind == TCPX_MEM_CUDA ||
	       config.far_mem.kind == TCPX_MEM_CUDA || conform_plugin();
}

/* The child that becomes the far process; nothing in it may need a lock before the new program. */
static pid_t far_fork(const int fds[2], char *const *argv)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	close(fds[0]);
	if (!argv)
		far_process(fds[1]);
	if (fcntl(fds[1], F_SETFD, 0) == 0)
		execv("/proc/self/exe", argv);
	_exit(127);
}

/* The far process, before its first session. */
static void enter_far_host(void)
{
	char path[128];
	int fd;

	config.near_bind = config.far_bind;
	if (!config.far_netns)
		return;
	snprintf(path, sizeof(path), "/run/netns/%s", config.far_netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_MSG(fd >= 0 && !setns(fd, CLONE_NEWNET), "no namespace %s", path);
	close(fd);
}

bool conform_plugin(void)
{
	return !strcmp(config.transport, "plugin");
}

bool conform_direct(void)
{
	const char *peer = getenv("TCPX_GPU_PEER");

	return !strcmp(config.transport, "local") && config.mem.kind == TCPX_MEM_CUDA &&
	       config.far_mem.kind == TCPX_MEM_CUDA && !(peer && !strcmp(peer, "0"));
}

bool conform_plain(void)
{
	return config.mem.kind == TCPX_MEM_HOST && config.far_mem.kind == TCPX_MEM_HOST;
}

bool conform_staged(void)
{
	return config.mem.kind != TCPX_MEM_HOST && config.far_mem.kind != TCPX_MEM_HOST;
}

void conform_opts(tcpx_session_opts *opts, const char *name)
{
	memset(opts, 0, sizeof(*opts));
	opts->sz = sizeof(*opts);
	opts->name = name;
	opts->bind = conform_bind();
	opts->key_file = config.key;
	opts->flags = strcmp(config.transport, "local") == 0 ? TCPX_SESSION_LOCAL_ONLY
							     : TCPX_SESSION_NO_LOCAL;
}

static int io_all(int fd, void *buf, size_t len, int out)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t n = out ? send(fd, p, len, MSG_NOSIGNAL) : recv(fd, p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		p += n;
		len -= (size_t)n;
	}
	return 1;
}

__attribute__((noreturn)) void far_process(int fd)
{
	static struct far_side side;
	static struct far_cmd cmd;
	static struct far_reply reply;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter_far_host();
	while (io_all(fd, &cmd, sizeof(cmd), 0)) {
		if (cmd.op == FAR_EXIT)
			break;
		if (cmd.op == FAR_BREACHES) {
			memset(&reply, 0, sizeof(reply));
			reply.value[0] = filter_check_breaches();
		} else {
			far_execute(&side, &cmd, &reply);
		}
		if (!io_all(fd, &reply, sizeof(reply), 1))
			break;
	}
	if (side.session)
		tcpx_session_close(side.session);
	buf_free_all();
	await_runtime();
	gpu_check_empty();
	plugin_check();
	exit(0);
}

tcpx_status far_call(struct env *env, struct far_cmd *cmd, struct far_reply *reply)
{
	if (env->side) {
		far_execute(env->side, cmd, reply);
		return reply->status;
	}
	if (!io_all(env->fd, cmd, sizeof(*cmd), 1) || !io_all(env->fd, reply, sizeof(*reply), 0)) {
		int status = -1;

		(void)waitpid(env->pid, &status, 0);
		CHECK_MSG(0, "the far process ended with %#x", status);
	}
	return reply->status;
}

tcpx_status far_simple(struct env *env, enum far_op op, uint32_t id, uint64_t a, uint64_t b,
		       uint64_t c, uint64_t d)
{
	struct far_cmd cmd = {.op = op, .id = id, .arg = {a, b, c, d}};
	struct far_reply reply;

	return far_call(env, &cmd, &reply);
}

void far_stop(struct env *env)
{
	int status;

	CHECK(kill(env->pid, SIGSTOP) == 0);
	CHECK(waitpid(env->pid, &status, WUNTRACED) == env->pid && WIFSTOPPED(status));
}

void far_open(struct env *env, const struct env_tune *tune)
{
	struct far_cmd cmd = {.op = FAR_OPEN};
	struct far_reply reply;

	if (tune)
		memcpy(cmd.data, tune, sizeof(*tune));
	OK(far_call(env, &cmd, &reply));
	memcpy(env->info, reply.data, reply.len);
	env->info_len = reply.len;
	env->far_port = (uint16_t)reply.value[0];
}

void env_far(struct env *env, const struct env_tune *far)
{
	if (config.processes == 2) {
		char option[32], **argv;
		int fds[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
		argv = far_is_program(env) ? far_argv(fds[1], option) : NULL;
		env->pid = far_fork(fds, argv);
		free(argv);
		close(fds[1]);
		env->fd = fds[0];
	} else {
		env->side = calloc(1, sizeof(*env->side));
		CHECK(env->side);
		env->fd = -1;
	}
	far_open(env, far);
}

void env_connect(struct env *env)
{
	OK(tcpx_session_connect(env->session, env->info, env->info_len, NULL, &env->peer));
	OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
}

void env_open_tuned(struct env *env, const struct env_tune *near, const struct env_tune *far)
{
	tcpx_session_opts opts;
	uint16_t port;

	env_far(env, far);
	conform_opts(&opts, "near");
	if (near) {
		opts.notify_budget_bytes = near->notify_budget;
		opts.memory_budget_bytes = near->memory_budget;
		opts.flags |= near->flags;
		opts.channels = near->channels;
		opts.chunk_bytes = near->chunk_bytes;
		opts.silent_ms = near->silent_ms;
		opts.stopped_ms = near->stopped_ms;
	}
	OK(tcpx_session_open(&opts, &env->session));
	OK(tcpx_session_listen(env->session, NULL, &port));
	env_connect(env);
}

void env_open(struct env *env)
{
	env_open_tuned(env, NULL, NULL);
}

void env_close(struct env *env)
{
	struct far_cmd cmd = {.op = FAR_EXIT};
	struct far_reply reply;
	int status = 0;

	if (env->session)
		tcpx_session_close(env->session);
	env->session = NULL;
	CHECK_EQ(filter_check_breaches(), 0);
	if (env->side) {
		if (env->side->session)
			far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0);
		if (env->side->kept)
			close(env->side->kept);
		free(env->side);
		env->side = NULL;
		CHECK_EQ(filter_check_breaches(), 0);
	} else if (env->pid) {
		far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0);
		cmd.op = FAR_BREACHES;
		far_call(env, &cmd, &reply);
		CHECK_EQ(reply.value[0], 0);
		cmd.op = FAR_EXIT;
		CHECK(io_all(env->fd, &cmd, sizeof(cmd), 1));
		CHECK(waitpid(env->pid, &status, 0) == env->pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0,
			  "the far process ended with %#x", status);
		close(env->fd);
		env->pid = 0;
	}
}
