/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory: one process WRITEs its GPU buffer into that of another, which checks the bytes. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tcpx/tcpx.h>
#include "cuda_memory.h"

static unsigned char sent[16 << 20], got[sizeof(sent)];
static tcpx_session *session;
static tcpx_region mine;
static struct { /* what the writer is told, by any means: here through a pipe */
	size_t len;
	unsigned char info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
} offer;

static void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, tcpx_status_text(status), tcpx_last_error()->what);
	exit(1);
}

/* Waits until the writer has ended, then looks at what it wrote. */
static int serve(int pipe_fd, pid_t writer, const void *gpu)
{
	tcpx_notification message = {.sz = sizeof(message)};
	uint16_t port;
	int status;

	must("listen", tcpx_session_listen(session, NULL, &port));
	must("info", tcpx_session_info(session, offer.info, sizeof(offer.info), &offer.len));
	must("export", tcpx_region_export(session, mine, offer.token));
	if (write(pipe_fd, &offer, sizeof(offer)) < 0 || waitpid(writer, &status, 0) < 0 || status)
		return 1;
	/* A notification says that the bytes are there, for each copy and kernel from now on. */
	must("take", tcpx_notify_take(session, TCPX_WAIT_FOREVER, &message));
	cuda_copy(got, gpu, sizeof(got));
	status = memcmp(got, sent, sizeof(got)) != 0;
	printf("%s: %s\n", (const char *)message.data, status ? "no" : "yes");
	return status;
}

static int write_all(int pipe_fd)
{
	TCPX_OPTS(tcpx_request_opts, opts, .notify = "the same bytes there", .notify_bytes = 21);
	tcpx_segment to = {.local = mine, .length = sizeof(sent)};
	tcpx_request request;
	tcpx_peer peer;

	if (read(pipe_fd, &offer, sizeof(offer)) != sizeof(offer))
		return 1;
	must("connect", tcpx_session_connect(session, offer.info, offer.len, NULL, &peer));
	must("token", tcpx_region_import(session, peer, offer.token, TCPX_TOKEN_BYTES, &to.remote));
	must("start", tcpx_request_start(session, peer, TCPX_OP_WRITE, &to, 1, &opts, &request));
	must("wait", tcpx_request_wait(session, request, TCPX_WAIT_FOREVER, NULL));
	return 0;
}

int main(void)
{
	int ends[2], failed;
	pid_t writer;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (unsigned char)(i * 31 + i / 4096);
	if (pipe(ends) || (writer = fork()) < 0) /* before CUDA begins: it survives no fork */
		return 1;
	close(ends[writer == 0]);
	TCPX_OPTS(tcpx_region_opts, opts, .kind = TCPX_MEM_CUDA, .device = cuda_use(writer == 0),
		  .rights = writer ? TCPX_RIGHT_WRITE : 0);
	void *gpu = cuda_buffer(writer ? got : sent, sizeof(sent));
	must("open", tcpx_session_open(NULL, &session));
	must("register", tcpx_region_register(session, gpu, sizeof(sent), &opts, &mine));
	failed = writer ? serve(ends[1], writer, gpu) : write_all(ends[0]);
	tcpx_session_close(session); /* or tcpx_region_deregister(), before the memory is freed */
	cuda_free(gpu);
	return failed;
}
