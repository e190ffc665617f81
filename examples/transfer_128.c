/* SPDX-License-Identifier: Apache-2.0 */
/* The predecessor's habit: 128 chunks posted on one transfer object, one wait, one release. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tcpx/tcpx.h>

#define CHUNKS 128
#define CHUNK_BYTES (512 * 1024)

static void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, tcpx_status_text(status), tcpx_last_error()->what);
	exit(1);
}

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 31 + i / CHUNK_BYTES);
}

/* Posts every chunk of the memory, waits once, releases. */
static void move_all(tcpx_session *session, tcpx_peer peer, enum tcpx_op op, void *memory)
{
	tcpx_transfer *transfer;
	tcpx_region region;

	must("register",
	     tcpx_region_register(session, memory, (uint64_t)CHUNKS * CHUNK_BYTES, NULL, &region));
	must("create", tcpx_transfer_create(session, peer, &transfer));
	for (uint64_t i = 0; i < CHUNKS; i++) {
		tcpx_segment chunk = {
			.local = region, .local_offset = i * CHUNK_BYTES, .length = CHUNK_BYTES};

		must("post", tcpx_transfer_post(transfer, op, &chunk));
	}
	must("wait", tcpx_transfer_wait(transfer, TCPX_WAIT_FOREVER));
	printf("%s: %llu of %llu chunks\n", op == TCPX_OP_RECV ? "server" : "client",
	       (unsigned long long)tcpx_transfer_completed(transfer),
	       (unsigned long long)tcpx_transfer_total(transfer));
	fflush(stdout);
	tcpx_transfer_release(transfer);
	must("deregister", tcpx_region_deregister(session, region, 0));
}

/* listen, accept, postRecv x 128, wait, and look at every byte */
static int server(int pipe_fd, pid_t child, unsigned char *memory)
{
	unsigned char info[TCPX_INFO_MAX_BYTES];
	tcpx_session *session;
	size_t len, wrong = 0;
	tcpx_peer peer;
	uint16_t port;
	int status;

	must("open", tcpx_session_open(NULL, &session));
	must("listen", tcpx_session_listen(session, NULL, &port));
	must("info", tcpx_session_info(session, info, sizeof(info), &len));
	if (write(pipe_fd, info, len) != (ssize_t)len)
		return 1;
	close(pipe_fd);
	must("accept", tcpx_session_accept(session, TCPX_WAIT_FOREVER, &peer));
	move_all(session, peer, TCPX_OP_RECV, memory);
	for (size_t i = 0; i < (size_t)CHUNKS * CHUNK_BYTES; i++)
		wrong += memory[i] != pattern(i);
	printf("server: %zu wrong bytes\n", wrong);
	if (waitpid(child, &status, 0) != child || status != 0)
		wrong++;
	tcpx_session_close(session);
	return wrong != 0;
}

/* loadRemoteConnInfo and connect, postSend x 128, wait */
static int client(int pipe_fd, unsigned char *memory)
{
	unsigned char info[TCPX_INFO_MAX_BYTES];
	tcpx_session *session;
	tcpx_peer peer;
	size_t len = 0;
	ssize_t part;

	for (size_t i = 0; i < (size_t)CHUNKS * CHUNK_BYTES; i++)
		memory[i] = pattern(i);
	while ((part = read(pipe_fd, info + len, sizeof(info) - len)) > 0)
		len += (size_t)part;
	must("open", tcpx_session_open(NULL, &session));
	must("connect", tcpx_session_connect(session, info, len, NULL, &peer));
	move_all(session, peer, TCPX_OP_SEND, memory);
	tcpx_session_close(session);
	return 0;
}

int main(void)
{
	unsigned char *memory = calloc(CHUNKS, CHUNK_BYTES);
	int ends[2], failed;
	pid_t child;

	if (!memory || pipe(ends) || (child = fork()) < 0)
		return 1;
	close(ends[child == 0]);
	failed = child == 0 ? client(ends[0], memory) : server(ends[1], child, memory);
	free(memory);
	return failed;
}
