/* SPDX-License-Identifier: Apache-2.0 */
/* A server session in a child process and a connected client session here, for API programs. */
#include "bench_pair.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_util.h"

void must(const char *what, tcpx_status status)
{
	if (status == TCPX_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, tcpx_status_text(status), tcpx_last_error()->what);
	exit(1);
}

char *bench_memory(uint64_t bytes)
{
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	memset(memory, 0x5a, bytes);
	return memory;
}

void bench_serve(struct bench_offer *out_offer, tcpx_session **out_session, uint64_t bytes,
		 uint32_t channels)
{
	TCPX_OPTS(tcpx_session_opts, opts, .flags = TCPX_SESSION_NO_LOCAL, .channels = channels);
	TCPX_OPTS(tcpx_region_opts, shared, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	tcpx_region region;
	uint16_t port;

	must("open", tcpx_session_open(&opts, out_session));
	must("listen", tcpx_session_listen(*out_session, NULL, &port));
	must("info", tcpx_session_info(*out_session, out_offer->info, sizeof(out_offer->info),
				       &out_offer->len));
	must("register",
	     tcpx_region_register(*out_session, bench_memory(bytes), bytes, &shared, &region));
	must("export", tcpx_region_export(*out_session, region, out_offer->token));
}

static int serve(int fd, uint64_t bytes, uint32_t channels)
{
	struct bench_offer offer;
	tcpx_session *session;
	char byte;

	bench_serve(&offer, &session, bytes, channels);
	if (write(fd, &offer, sizeof(offer)) != (ssize_t)sizeof(offer))
		return 1;
	while (read(fd, &byte, 1) > 0)
		;
	tcpx_session_close(session);
	return 0;
}

void bench_pair_open(struct bench_pair *pair, uint64_t bytes, uint32_t channels)
{
	TCPX_OPTS(tcpx_session_opts, opts, .flags = TCPX_SESSION_NO_LOCAL, .channels = channels);
	struct bench_offer offer;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		die("socketpair");
	pair->child = fork();
	if (pair->child < 0)
		die("fork");
	if (!pair->child) {
		close(ends[0]);
		exit(serve(ends[1], bytes, channels));
	}
	close(ends[1]);
	pair->fd = ends[0];
	pair->bytes = bytes;
	if (recv(pair->fd, &offer, sizeof(offer), MSG_WAITALL) != (ssize_t)sizeof(offer))
		die("offer");
	pair->memory = bench_memory(bytes);
	must("open", tcpx_session_open(&opts, &pair->session));
	must("register",
	     tcpx_region_register(pair->session, pair->memory, bytes, NULL, &pair->near_region));
	pair->connect_ns = now_ns();
	must("connect",
	     tcpx_session_connect(pair->session, offer.info, offer.len, NULL, &pair->peer));
	pair->connect_ns = now_ns() - pair->connect_ns;
	must("import", tcpx_region_import(pair->session, pair->peer, offer.token,
					  sizeof(offer.token), &pair->far_region));
}

int64_t bench_write(struct bench_pair *pair, uint64_t bytes)
{
	tcpx_segment piece = {
		.local = pair->near_region, .remote = pair->far_region, .length = bytes};
	tcpx_request request;
	int64_t begin = now_ns(), took;

	must("start", tcpx_request_start(pair->session, pair->peer, TCPX_OP_WRITE, &piece, 1, NULL,
					 &request));
	must("wait", tcpx_request_wait(pair->session, request, TCPX_WAIT_FOREVER, NULL));
	took = now_ns() - begin;
	tcpx_request_release(pair->session, request);
	return took;
}

void bench_pair_close(struct bench_pair *pair)
{
	int status;

	tcpx_session_close(pair->session);
	close(pair->fd);
	if (waitpid(pair->child, &status, 0) != pair->child || status)
		die("server");
}
