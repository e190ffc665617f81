/* SPDX-License-Identifier: Apache-2.0 */
/* How serve handles each message of a client. Clients may be hostile, so everything is checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "ceiling_gpu.h"
#include "cli_values.h"
#include "perf_channels.h"
#include "perf_lines.h"
#include "perf_memory.h"
#include "perf_service_priv.h"
#include "sys/addr.h"

#define CEILING_SOCKETS_MAX (CEILING_LANES_MAX / 2)

static void broken(struct perf_message *reply, tcpx_status status)
{
	const tcpx_error *last = tcpx_last_error();

	perf_service_refuse(reply, PERF_BROKEN, "%s",
			    last->status == status && *last->what ? last->what
								  : tcpx_status_text(status));
}

static void on_hello(struct perf_service *s, const struct perf_message *request,
		     struct perf_message *reply)
{
	struct perf_welcome welcome = {s->house->memory_limit, s->house->kinds};
	char text[PERF_BLOB_MAX], host[64], addr[SYS_ADDR_TEXT];
	size_t used;

	(void)request;
	if (gethostname(host, sizeof(host)))
		snprintf(host, sizeof(host), "?");
	host[sizeof(host) - 1] = 0;
	used = (size_t)snprintf(text, sizeof(text), "%s\n%s\n", tcpx_version(), host);
	for (unsigned i = 0; i < s->house->naddresses && used + SYS_ADDR_TEXT < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n",
					 sys_addr_text(&s->house->addresses[i], addr));
	perf_message_put(reply, &welcome, sizeof(welcome));
	perf_message_blob(reply, text, used);
	s->hello = 1;
}

/* Prints the path as in perf's header, which shows the client's side only. Called once the
 * channels are up. */
static void tell_relay(struct perf_service *s)
{
	char text[80];

	if (s->relay_told || !*perf_channels_relay(s->house->session, s->peer, text, sizeof(text)))
		return;
	s->relay_told = 1;
	fprintf(stderr,
		"# messages: NIC %s  relay %s: what comes for this GPU lands on another one "
		"first\n",
		text, text);
}

/* Checks the memory that a client asks for. Returns 0 with its GPU, or -1 after a refusal. */
static int find_place(struct perf_service *s, uint64_t kind, uint64_t device,
		      struct perf_message *reply, struct perf_place *out)
{
	const struct perf_house *house = s->house;

	*out = (struct perf_place){.kind = (enum tcpx_mem_kind)kind};
	if (kind > TCPX_MEM_CUDA || !(house->kinds >> kind & 1)) {
		perf_service_refuse(reply, PERF_REFUSED,
				    "--remote-mem: this kind is not allowed (serve --mem)");
		return -1;
	}
	if (kind != TCPX_MEM_CUDA)
		return 0;
	if (device == PERF_DEVICE_FIRST)
		device = (unsigned)__builtin_ctzll(house->gpus);
	if (device > CLI_NUMBER_MAX || !(house->gpus >> device & 1)) {
		perf_service_refuse(reply, PERF_REFUSED,
				    "--remote-mem: this GPU is not allowed (serve --mem)");
		return -1;
	}
	out->device = (uint32_t)device;
	return 0;
}

static void on_place(struct perf_service *s, const struct perf_message *request,
		     struct perf_message *reply)
{
	char text[CLI_GPU_UUID_BYTES + 128];
	struct perf_found found = {0};
	struct perf_where where;
	struct perf_place place;
	struct cli_gpu gpu;
	int len;

	tell_relay(s);
	if (perf_message_get(request, &where, sizeof(where))) {
		perf_service_refuse(reply, PERF_REFUSED, "malformed question for memory");
		return;
	}
	if (find_place(s, where.kind, where.device, reply, &place))
		return;
	if (place.kind == TCPX_MEM_CUDA) {
		if (cli_gpu_get(place.device, &gpu) != TCPX_OK) {
			perf_service_refuse(reply, PERF_REFUSED, "--remote-mem: %s",
					    tcpx_last_error()->what);
			return;
		}
		found = (struct perf_found){gpu.ordinal, (uint64_t)(gpu.numa + 1)};
		memcpy(text, gpu.uuid, CLI_GPU_UUID_BYTES);
		len = snprintf(text + CLI_GPU_UUID_BYTES, sizeof(text) - CLI_GPU_UUID_BYTES,
			       "%s\n%s\n", gpu.pci, gpu.name);
		perf_message_blob(reply, text, CLI_GPU_UUID_BYTES + (size_t)len);
	}
	perf_message_put(reply, &found, sizeof(found));
}

static void on_row(struct perf_service *s, const struct perf_message *request,
		   struct perf_message *reply)
{
	uint8_t tokens[PERF_TOKENS_BYTES];
	struct perf_place place;
	struct perf_spec spec;
	const char *wrong;
	tcpx_status status;

	if (perf_message_get(request, &spec, sizeof(spec)) ||
	    request->blob_len != PERF_TOKENS_BYTES) {
		perf_service_refuse(reply, PERF_REFUSED, "malformed row");
		return;
	}
	wrong = perf_spec_wrong(&spec, s->house->memory_limit);
	if (wrong) {
		perf_service_refuse(reply, PERF_REFUSED, "%s", wrong);
		return;
	}
	if (find_place(s, spec.kind, spec.device, reply, &place))
		return;
	perf_service_pong_end(s);
	s->armed = 0;
	s->row_transfers = s->row_ns = 0;
	if (perf_service_take_row(s, &spec, reply))
		return;
	status = perf_side_open(&s->side, &spec, &place);
	if (status == TCPX_OK)
		status = perf_side_export(&s->side, tokens);
	if (status == TCPX_OK)
		status = perf_side_bind(&s->side, request->blob);
	if (status != TCPX_OK) {
		broken(reply, status);
		perf_side_end(&s->side);
		return;
	}
	perf_message_blob(reply, tokens, sizeof(tokens));
}

/* Reads the body of ARM, GO and END; a window must not have more transfers than the row may
 * post. */
static int get_window(struct perf_service *s, const struct perf_message *request,
		      struct perf_message *reply, struct perf_window *out)
{
	if (perf_message_get(request, out, sizeof(*out)) ||
	    (s->side.row_open && out->used > perf_side_most(&s->side)) || out->used > UINT32_MAX) {
		perf_service_refuse(reply, PERF_REFUSED, "malformed window");
		return -1;
	}
	if (request->type != PERF_ARM &&
	    (!s->armed || out->used != s->window.used || out->number != s->window.number)) {
		perf_service_refuse(reply, PERF_REFUSED, "the window was not armed");
		return -1;
	}
	return 0;
}

static void on_arm(struct perf_service *s, const struct perf_message *request,
		   struct perf_message *reply)
{
	tcpx_status status = TCPX_OK;

	if (get_window(s, request, reply, &s->window))
		return;
	if (s->armed) {
		perf_service_refuse(reply, PERF_REFUSED, "the last window has not ended");
		return;
	}
	if (s->side.row_open) { /* without a row only the meter runs (notifications) */
		status = perf_side_fill(&s->side, &s->window);
		perf_service_touched(s);
		if (status == TCPX_OK)
			status = perf_side_receive(&s->side, &s->window);
	}
	if (status != TCPX_OK) {
		broken(reply, status);
		return;
	}
	if (s->side.row_open && s->side.spec.pong)
		perf_service_pong_arm(s, (uint32_t)s->window.used);
	s->armed = 1;
	s->meter = perf_meter_start(s->house->session, s->peer);
	s->armed_ns = clock_now_ns();
}

static void on_go(struct perf_service *s, const struct perf_message *request,
		  struct perf_message *reply)
{
	struct perf_samples samples = {0};
	struct perf_window window;
	struct perf_ran ran;
	int64_t ns = 0;
	tcpx_status status;

	if (get_window(s, request, reply, &window))
		return;
	if (!s->side.row_open || !perf_side_initiates(&s->side)) {
		perf_service_refuse(reply, PERF_REFUSED, "the row runs in one direction");
		return;
	}
	status = perf_flow_run(&s->side.out, (uint32_t)window.used, &samples, &ns);
	perf_samples_free(&samples);
	if (status != TCPX_OK) {
		broken(reply, status);
		return;
	}
	ran.elapsed_ns = (uint64_t)ns;
	perf_message_put(reply, &ran, sizeof(ran));
}

static void on_end(struct perf_service *s, const struct perf_message *request,
		   struct perf_message *reply)
{
	int64_t ns = clock_now_ns() - s->armed_ns;
	struct perf_verdict verdict = {0};
	struct perf_window window;
	struct perf_wrong wrong = {0};
	struct perf_meter grown;
	uint32_t pongs;
	tcpx_status status;

	if (get_window(s, request, reply, &window))
		return;
	grown = perf_meter_stop(&s->meter, s->house->session, s->peer);
	pongs = perf_service_pong_end(s);
	s->armed = 0;
	verdict = (struct perf_verdict){
		.cpu_ns = grown.cpu_ns,
		.busy_ns = grown.busy_ns,
		.rwnd_ns = grown.rwnd_ns,
		.sndbuf_ns = grown.sndbuf_ns,
		.retransmits = grown.retransmits,
	};
	memcpy(verdict.congestion, grown.congestion, sizeof(verdict.congestion));
	if (s->side.row_open) {
		status = perf_side_received(&s->side, &window);
		if (status == TCPX_OK && pongs)
			status = perf_flow_wait(&s->side.out, pongs);
		if (status == TCPX_OK)
			status = perf_side_check(&s->side, &window, &wrong);
		if (status != TCPX_OK) {
			broken(reply, status);
			return;
		}
		verdict.wrong = wrong.count;
		verdict.first = wrong.first;
	}
	s->worked |= !s->side.row_open; /* such rows send no END */
	if (window.measured) {
		if (s->house->perf_lines)
			perf_lines_window(s->row_transfers, window.used, (uint64_t)ns, NULL, 1);
		s->row_transfers += window.used;
		s->row_ns += (uint64_t)ns;
	}
	perf_message_put(reply, &verdict, sizeof(verdict));
}

static void on_row_end(struct perf_service *s, const struct perf_message *request,
		       struct perf_message *reply)
{
	(void)request;
	(void)reply;
	if (s->house->perf_lines && s->side.row_open && s->row_transfers)
		perf_lines_row(s->row_transfers, s->row_transfers * s->side.spec.size, s->row_ns);
	s->worked |= s->side.row_open && s->row_transfers;
	perf_service_pong_end(s);
	s->armed = 0;
	perf_side_end(&s->side);
}

/* Writes the blob of the answer: addresses with the ports of the plain sockets, one per line. */
static void put_ports(struct perf_service *s, const uint16_t *ports, struct perf_message *reply)
{
	char text[PERF_BLOB_MAX], addr[SYS_ADDR_TEXT];
	size_t used = 0;

	for (unsigned i = 0; i < s->house->naddresses && used + SYS_ADDR_TEXT < sizeof(text); i++) {
		struct sockaddr_storage copy = s->house->addresses[i];

		sys_addr_set_port(&copy, ports[i]);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n",
					 sys_addr_text(&copy, addr));
	}
	perf_message_blob(reply, text, used);
}

static void close_ceiling(struct perf_service *s)
{
	ceiling_serve_close(s->ceiling);
	s->ceiling = NULL;
	perf_service_give_back(s, &s->ceiling_reserved);
}

static void on_ceil_open(struct perf_service *s, const struct perf_message *request,
			 struct perf_message *reply)
{
	uint16_t ports[PERF_ADDRESSES_MAX] = {0};
	struct perf_ceil_spec spec;
	uint64_t bytes;

	close_ceiling(s);
	if (perf_message_get(request, &spec, sizeof(spec)) ||
	    request->blob_len != CEILING_SECRET_BYTES || !spec.sockets ||
	    spec.sockets > CEILING_SOCKETS_MAX || !spec.directions || spec.directions > 3 ||
	    spec.working_set < spec.sockets || (spec.ring && spec.ring < spec.sockets) ||
	    spec.ping > CEILING_PING_SPINNING ||
	    (spec.ping &&
	     (spec.sockets != 1 || spec.directions != 1 || spec.working_set > CEILING_PING_MAX))) {
		perf_service_refuse(reply, PERF_REFUSED, "malformed ceiling");
		return;
	}
	bytes = spec.ring && spec.ring < spec.working_set ? spec.ring : spec.working_set;
	bytes *= spec.directions == 3 ? 2 : 1;
	if (spec.working_set > s->house->memory_limit || bytes > perf_memory_free() ||
	    perf_service_reserve(s, bytes, &s->ceiling_reserved)) {
		perf_service_refuse(reply, PERF_REFUSED,
				    "no memory left for --ceiling (serve --max-memory)");
		return;
	}
	if (ceiling_serve_open((unsigned)spec.sockets, (unsigned)spec.directions,
			       (size_t)spec.working_set, (size_t)spec.ring,
			       (enum ceiling_ping)spec.ping, request->blob, s->house->addresses,
			       s->house->naddresses, ports, &s->ceiling)) {
		perf_service_refuse(reply, PERF_BROKEN, "ceiling: %m");
		close_ceiling(s);
		return;
	}
	put_ports(s, ports, reply);
}

static void on_ceil_arm(struct perf_service *s, const struct perf_message *request,
			struct perf_message *reply)
{
	uint64_t seed;

	if (perf_message_get(request, &seed, sizeof(seed)) || !s->ceiling) {
		perf_service_refuse(reply, PERF_REFUSED, "no ceiling is open");
		return;
	}
	if (ceiling_serve_arm(s->ceiling, seed, &s->side.leave)) {
		perf_service_refuse(reply, PERF_BROKEN,
				    "ceiling: plain sockets are missing or idle");
		close_ceiling(s);
	}
}

static void on_ceil_end(struct perf_service *s, const struct perf_message *request,
			struct perf_message *reply)
{
	uint64_t cpu;

	(void)request;
	if (!s->ceiling) {
		perf_service_refuse(reply, PERF_REFUSED, "no ceiling is open");
		return;
	}
	cpu = ceiling_serve_end(s->ceiling);
	perf_message_put(reply, &cpu, sizeof(cpu));
}

static void on_ceil_close(struct perf_service *s, const struct perf_message *request,
			  struct perf_message *reply)
{
	(void)request;
	(void)reply;
	close_ceiling(s);
}

/* Measures the copy engines of this end for a client. */
static void on_ceil_gpu(struct perf_service *s, const struct perf_message *request,
			struct perf_message *reply)
{
	struct perf_ceil_rates rates = {0};
	struct perf_ceil_gpu what;
	struct perf_place place;
	uint64_t reserved = 0;
	tcpx_status status = TCPX_OK;

	if (perf_message_get(request, &what, sizeof(what))) {
		perf_service_refuse(reply, PERF_REFUSED, "malformed ceiling");
		return;
	}
	if (find_place(s, TCPX_MEM_CUDA, what.device, reply, &place))
		return;
	if (perf_service_reserve(s, CEILING_RING_BYTES + CEILING_GPU_BYTES, &reserved)) {
		perf_service_refuse(reply, PERF_REFUSED,
				    "no memory left for --ceiling (serve --max-memory)");
		return;
	}
	if (what.d2h)
		status = ceiling_gpu_copy(place.device, CEILING_D2H, &rates.d2h);
	if (what.h2d && status == TCPX_OK)
		status = ceiling_gpu_copy(place.device, CEILING_H2D, &rates.h2d);
	perf_service_give_back(s, &reserved);
	if (status == TCPX_OK)
		perf_message_put(reply, &rates, sizeof(rates));
	else
		broken(reply, status);
}

static void on_bye(struct perf_service *s, const struct perf_message *request,
		   struct perf_message *reply)
{
	tcpx_channel_info rows[PERF_CHANNELS_MAX];
	unsigned count;

	(void)request; /* perf_service_give() has read it */
	(void)reply;
	if (s->house->verbose) {
		count = perf_channels_read(s->house->session, s->peer, rows);
		perf_channels_print(stderr, rows, count);
	}
}

void perf_service_handle(struct perf_service *service, const struct perf_message *request,
			 struct perf_message *reply)
{
	static void (*const handlers[])(struct perf_service *, const struct perf_message *,
					struct perf_message *) = {
		[PERF_HELLO] = on_hello,
		[PERF_ROW] = on_row,
		[PERF_ARM] = on_arm,
		[PERF_GO] = on_go,
		[PERF_END] = on_end,
		[PERF_ROW_END] = on_row_end,
		[PERF_CEIL_OPEN] = on_ceil_open,
		[PERF_CEIL_ARM] = on_ceil_arm,
		[PERF_CEIL_END] = on_ceil_end,
		[PERF_CEIL_CLOSE] = on_ceil_close,
		[PERF_BYE] = on_bye,
		[PERF_PLACE] = on_place,
		[PERF_CEIL_GPU] = on_ceil_gpu,
		[PERF_FACTS] = perf_service_facts,
	};

	if (request->type >= sizeof(handlers) / sizeof(handlers[0]) || !handlers[request->type])
		perf_service_refuse(reply, PERF_REFUSED, "unknown question %u", request->type);
	else if (request->type != PERF_HELLO && !service->hello)
		perf_service_refuse(reply, PERF_REFUSED, "the client did not say hello");
	else
		handlers[request->type](service, request, reply);
}

void perf_service_release(struct perf_service *s)
{
	free(s->facts);
	s->facts = NULL;
	close_ceiling(s);
	perf_service_pong_end(s);
	perf_side_close(&s->side);
	perf_service_touched(s);
	perf_service_give_back(s, &s->reserved);
}
