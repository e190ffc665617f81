/* SPDX-License-Identifier: Apache-2.0 */
/* --ceiling: the rate of plain blocking sockets between the same ranks. Each link and direction
 * has as many sockets as channels, each with a thread, all at once. libtcpx only carries the
 * port numbers. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "ceiling_gpu.h"
#include "ceiling_lane.h"
#include "cli_address.h"
#include "node.h"
#include "node_control.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "wire/hello.h"

#define ROUNDS 3
#define CALL_SECONDS 30
/* Alignment of buffers: from an odd address the kernel copies at a tenth of its speed. */
#define PAGE_BYTES 4096

/* The first bytes on a connection, which tell the sockets apart. */
struct call {
	uint64_t cookie;
	/* link: index at the listening GPU, where the first half of the lanes receives */
	uint32_t link, lane;
};

struct lane {
	struct node_gpu *gpu;
	int fd, sends, err;
	uint8_t *share;
	size_t share_bytes, bytes; /* bytes: of one round */
	pthread_t thread;
	bool running;
};

/* Of one GPU. */
struct plain {
	int listener;
	uint8_t *buffers[2]; /* source, destination */
	size_t buffer_bytes;
	struct lane *lanes; /* by link, then those that send, then those that receive */
	uint32_t nlanes;
};

struct offer {
	uint64_t cookie;
	uint16_t port;
};

struct node_ceiling {
	struct node *node;
	struct plain plains[NODE_GPUS_MAX];
	struct offer *offers; /* of all ends, by node_end_at() */
	uint64_t cookie;
};

static struct node_ceiling *now; /* used by the threads of the stages; one per process */

static tcpx_status node_ceiling_failed(const char *what)
{
	return error_set(TCPX_ERR_SYSTEM, errno, "ceiling: %s", what);
}

/* An address on which the GPU's session listens, from its contact, with the port of the plain
 * listener. */
static tcpx_status address_of(const struct node_contact *contact, uint32_t at, uint16_t port,
			      struct sockaddr_storage *out)
{
	struct wire_info info;
	tcpx_status status = wire_info_decode(contact->info, contact->info_bytes, &info);

	if (status != TCPX_OK)
		return status;
	explicit_bzero(info.secret, sizeof(info.secret));
	cli_address(&info.addrs[at % info.naddrs], out);
	sys_addr_set_port(out, port);
	return TCPX_OK;
}

static uint8_t *node_ceiling_take(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Allocates the lanes of a GPU, without sockets. */
static tcpx_status make_lanes(struct node_gpu *gpu, struct plain *plain)
{
	const struct node *node = gpu->node;
	size_t area = (size_t)node->slots * node->options->size, bytes = area * gpu->nlinks, each;
	uint32_t per_way = 0, made[2] = {0};

	for (uint32_t i = 0; i < gpu->nlinks; i++)
		per_way += gpu->links[i].want;
	if (gpu->gpu && bytes > CEILING_RING_BYTES)
		bytes = CEILING_RING_BYTES; /* as much as the staging ring has */
	if (bytes / per_way < CEILING_CALL_BYTES)
		bytes = (size_t)per_way * CEILING_CALL_BYTES;
	plain->buffer_bytes = bytes;
	each = bytes / per_way / PAGE_BYTES * PAGE_BYTES;
	plain->buffers[0] = node_ceiling_take(bytes);
	plain->buffers[1] = node_ceiling_take(bytes);
	plain->lanes = calloc(2 * per_way, sizeof(*plain->lanes));
	if (!plain->buffers[0] || !plain->buffers[1] || !plain->lanes)
		return error_set(TCPX_ERR_NO_MEMORY, errno, "ceiling: buffers");
	for (uint32_t i = 0; i < gpu->nlinks; i++)
		for (uint32_t k = 0; k < 2 * gpu->links[i].want; k++) {
			struct lane *lane = &plain->lanes[plain->nlanes++];
			uint32_t half = k < gpu->links[i].want ? 0 : 1;

			*lane = (struct lane){.gpu = gpu, .fd = -1, .sends = !half};
			lane->share_bytes = each;
			lane->share = plain->buffers[half] + made[half]++ * each;
			lane->bytes = area / gpu->links[i].want;
		}
	return TCPX_OK;
}

static tcpx_status node_ceiling_listens(struct node_gpu *gpu, struct plain *plain)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	tcpx_status status = address_of(&gpu->contact, 0, 0, &addr);

	if (status != TCPX_OK)
		return status;
	plain->listener = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (plain->listener < 0 ||
	    bind(plain->listener, (struct sockaddr *)&addr, sys_addr_len(&addr)) ||
	    listen(plain->listener, 1024) ||
	    getsockname(plain->listener, (struct sockaddr *)&addr, &len))
		return node_ceiling_failed("a listening socket");
	now->offers[gpu->index] = (struct offer){now->cookie, (uint16_t)sys_addr_port(&addr)};
	return TCPX_OK;
}

static tcpx_status node_ceiling_prepare(struct node_gpu *gpu)
{
	struct plain *plain = &now->plains[gpu->index];
	tcpx_status status = gpu->nlinks ? make_lanes(gpu, plain) : TCPX_OK;

	return status == TCPX_OK ? node_ceiling_listens(gpu, plain) : status;
}

static struct node_end node_ceiling_self_of(const struct node_gpu *gpu)
{
	return (struct node_end){gpu->node->rank, gpu->index};
}

/* The lanes of a link begin here. */
static struct lane *lanes_of(struct node_gpu *gpu, uint32_t link)
{
	struct lane *lane = now->plains[gpu->index].lanes;

	for (uint32_t i = 0; i < link; i++)
		lane += 2 * gpu->links[i].want;
	return lane;
}

static tcpx_status dial_link(struct node_gpu *gpu, struct node_link *link, struct lane *lanes)
{
	uint32_t at = node_end_at(gpu->node->hellos, link->far);
	struct sockaddr_storage addr;
	tcpx_status status = address_of(&gpu->node->contacts[at], 0, now->offers[at].port, &addr);

	for (uint32_t k = 0; k < 2 * link->want && status == TCPX_OK; k++) {
		struct call call = {now->offers[at].cookie, link->far_link, k};
		int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		/* what this end sends first, the far end receives first */
		lanes[k].fd = fd;
		if (fd >= 0)
			ceiling_timeout(fd, CALL_SECONDS);
		if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sys_addr_len(&addr)) ||
		    ceiling_send(fd, &call, sizeof(call)))
			return node_ceiling_failed("a plain socket");
		ceiling_options(fd);
	}
	return status;
}

static tcpx_status accept_lane(struct node_gpu *gpu, struct plain *plain)
{
	struct call call;
	struct lane *lanes;
	uint32_t want;
	int fd = accept4(plain->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return node_ceiling_failed("accepting a plain socket");
	ceiling_timeout(fd, CALL_SECONDS);
	if (ceiling_receive(fd, &call, sizeof(call)) || call.cookie != now->cookie ||
	    call.link >= gpu->nlinks || call.lane >= 2 * gpu->links[call.link].want) {
		close(fd); /* a connection of somebody else */
		return TCPX_OK;
	}
	lanes = lanes_of(gpu, call.link);
	want = gpu->links[call.link].want;
	lanes[call.lane < want ? call.lane + want : call.lane - want].fd = fd;
	ceiling_options(fd);
	return TCPX_OK;
}

static uint32_t lacking(const struct plain *plain)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < plain->nlanes; i++)
		count += plain->lanes[i].fd < 0;
	return count;
}

static tcpx_status node_ceiling_connect_all(struct node_gpu *gpu)
{
	struct plain *plain = &now->plains[gpu->index];
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; i < gpu->nlinks && status == TCPX_OK; i++)
		if (node_plan_dials(node_ceiling_self_of(gpu), gpu->links[i].far))
			status = dial_link(gpu, &gpu->links[i], lanes_of(gpu, i));
	if (plain->listener >= 0)
		ceiling_timeout(plain->listener, CALL_SECONDS);
	while (status == TCPX_OK && lacking(plain))
		status = accept_lane(gpu, plain);
	return status;
}

static void *node_ceiling_lane_main(void *arg)
{
	struct lane *lane = arg;
	size_t left = lane->bytes, at = 0;

	while (left && !lane->err) {
		size_t len = left < CEILING_CALL_BYTES ? left : CEILING_CALL_BYTES;

		if (len > lane->share_bytes - at)
			len = lane->share_bytes - at;
		if (lane->sends ? ceiling_send(lane->fd, lane->share + at, len)
				: ceiling_receive(lane->fd, lane->share + at, len))
			lane->err = errno ? errno : ECONNRESET;
		at = (at + len) % lane->share_bytes;
		left -= len;
	}
	return NULL;
}

static tcpx_status node_ceiling_move(struct node_gpu *gpu)
{
	struct plain *plain = &now->plains[gpu->index];
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; i < plain->nlanes && status == TCPX_OK; i++) {
		struct lane *lane = &plain->lanes[i];

		status =
			sys_thread_start(&lane->thread, "tcpx-plain", node_ceiling_lane_main, lane);
		lane->running = status == TCPX_OK;
	}
	for (uint32_t i = 0; i < plain->nlanes; i++) {
		struct lane *lane = &plain->lanes[i];

		if (!lane->running)
			continue;
		pthread_join(lane->thread, NULL);
		lane->running = false;
		if (lane->err && status == TCPX_OK)
			status = error_set(TCPX_ERR_SYSTEM, lane->err, "ceiling: a plain socket");
	}
	return status;
}

static void end_all(struct node *node)
{
	for (uint32_t i = 0; i < node->ngpus; i++) {
		struct plain *plain = &now->plains[i];

		for (uint32_t k = 0; k < plain->nlanes; k++)
			if (plain->lanes[k].fd >= 0)
				close(plain->lanes[k].fd);
		if (plain->listener >= 0)
			close(plain->listener);
		for (int k = 0; k < 2; k++)
			if (plain->buffers[k])
				munmap(plain->buffers[k], plain->buffer_bytes);
		free(plain->lanes);
	}
	free(now->offers);
	free(now);
	now = NULL;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static tcpx_status rounds(struct node *node)
{
	uint64_t took[ROUNDS];
	tcpx_status status = TCPX_OK;

	for (int i = 0; i <= ROUNDS && status == TCPX_OK; i++) { /* the first one warms up */
		uint64_t began;

		status = node_control_barrier(node->control, "ceiling");
		began = (uint64_t)clock_now_ns();
		if (status == TCPX_OK)
			status = node_each(node, node_ceiling_move);
		if (i)
			took[i - 1] = (uint64_t)clock_now_ns() - began;
	}
	if (status != TCPX_OK)
		return status;
	qsort(took, ROUNDS, sizeof(*took), by_size);
	node->ceiling_ns = took[ROUNDS / 2];
	return TCPX_OK;
}

tcpx_status node_ceiling(struct node *node)
{
	struct offer own[NODE_GPUS_MAX] = {0};
	void *all = NULL;
	tcpx_status status;

	now = calloc(1, sizeof(*now));
	if (now)
		now->offers = own;
	if (!now)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "ceiling");
	now->node = node;
	now->cookie = (uint64_t)clock_now_ns() ^ (uint64_t)getpid() << 40;
	for (uint32_t i = 0; i < node->ngpus; i++)
		now->plains[i].listener = -1;
	node_control_stage(node->control, "ceiling");
	status = node_each(node, node_ceiling_prepare);
	now->offers = NULL;
	if (status == TCPX_OK)
		status = node_share_all(node, "ceiling", own, sizeof(*own), &all);
	now->offers = all;
	if (status == TCPX_OK)
		status = node_each(node, node_ceiling_connect_all);
	if (status == TCPX_OK)
		status = rounds(node);
	end_all(node);
	return status;
}
