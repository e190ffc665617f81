/* SPDX-License-Identifier: Apache-2.0 */
/* Filters by their spec, and what they share: a head whose members pass through. */
#include <stdlib.h>
#include <string.h>

#include "net/net_wrapper.h"
#include "base/error.h"
#include "parts/filter_priv.h"

static struct net_chan *inner_of(const struct net_chan *chan)
{
	return ((const struct filter_chan *)chan)->inner;
}

static tcpx_status pass_send(struct net_chan *chan, const struct iovec *iov, int niov,
			     size_t *out_bytes)
{
	struct net_chan *inner = filter_tx((struct filter_chan *)chan);

	return inner->ops->send(inner, iov, niov, out_bytes);
}

static tcpx_status pass_send_held(struct net_chan *chan, const struct iovec *iov, int niov,
				  int first, int held, size_t *out_bytes)
{
	struct net_chan *inner = filter_tx((struct filter_chan *)chan);

	return inner->ops->zerocopy->send_held(inner, iov, niov, first, held, out_bytes);
}

static int pass_intact(const struct net_chan *chan)
{
	return inner_of(chan)->ops->zerocopy->intact(inner_of(chan));
}

static int pass_ended(const struct net_chan *chan)
{
	return inner_of(chan)->ops->zerocopy->ended(inner_of(chan));
}

static void pass_purge(struct net_chan *chan)
{
	inner_of(chan)->ops->zerocopy->purge(inner_of(chan));
}

static tcpx_status pass_recv(struct net_chan *chan, const struct iovec *iov, int niov,
			     size_t *out_bytes)
{
	struct net_chan *inner = filter_rx((struct filter_chan *)chan);

	return inner->ops->recv(inner, iov, niov, out_bytes);
}

static int pass_lends(const struct net_chan *chan)
{
	return inner_of(chan)->ops->loan->lends(inner_of(chan));
}

static tcpx_status pass_lend(struct net_chan *chan, const struct iovec *iov, int niov,
			     size_t *out_bytes)
{
	struct net_chan *inner = filter_tx((struct filter_chan *)chan);

	return inner->ops->loan->lend(inner, iov, niov, out_bytes);
}

static void pass_lent(struct net_chan *chan, int take_back, struct net_lent *out_lent)
{
	inner_of(chan)->ops->loan->lent(inner_of(chan), take_back, out_lent);
}

static int pass_torn(struct net_chan *chan)
{
	return inner_of(chan)->ops->loan->torn(inner_of(chan));
}

static void pass_reading_set(struct net_chan *chan, int on)
{
	inner_of(chan)->ops->reading->set(inner_of(chan), on);
}

static int pass_reading_peer(struct net_chan *chan)
{
	return inner_of(chan)->ops->reading->peer(inner_of(chan));
}

static tcpx_status pass_post(struct net_chan *chan, void *mr, const void *data,
			     const struct frame *frame)
{
	return inner_of(chan)->ops->message->post(inner_of(chan), mr, data, frame);
}

static tcpx_status pass_take(struct net_chan *chan, uint64_t seq, struct net_message *out_message)
{
	return inner_of(chan)->ops->message->take(inner_of(chan), seq, out_message);
}

static void pass_give(struct net_chan *chan, uint64_t seq)
{
	inner_of(chan)->ops->message->give(inner_of(chan), seq);
}

static int pass_arm(struct net_chan *chan, int want_recv, int want_send, uint32_t *out_events)
{
	return inner_of(chan)->ops->arm(inner_of(chan), want_recv, want_send, out_events);
}

static int pass_fd(const struct net_chan *chan)
{
	return inner_of(chan)->ops->fd(inner_of(chan));
}

static void pass_recv_mark(struct net_chan *chan, size_t bytes)
{
	inner_of(chan)->ops->recv_mark(inner_of(chan), bytes);
}

static void pass_shutdown(struct net_chan *chan)
{
	inner_of(chan)->ops->shutdown(inner_of(chan));
}

static void pass_close(struct net_chan *chan)
{
	inner_of(chan)->ops->close(inner_of(chan));
	free(chan);
}

static void pass_trim(struct net_chan *chan)
{
	inner_of(chan)->ops->trim(inner_of(chan));
}

static void pass_info(const struct net_chan *chan, struct net_chan_info *out_info)
{
	inner_of(chan)->ops->info(inner_of(chan), out_info);
}

static const struct net_reading_ops pass_reading = {
	.set = pass_reading_set,
	.peer = pass_reading_peer,
};

static const struct net_message_ops pass_message = {
	.post = pass_post,
	.take = pass_take,
	.give = pass_give,
};

void filter_init(struct filter_chan *filter, struct net_chan *inner)
{
	filter->inner = inner;
	filter->ops = (struct net_ops){
		.name = inner->ops->name,
		.caps = inner->ops->caps,
		.send = pass_send,
		.recv = pass_recv,
		.arm = pass_arm,
		.fd = pass_fd,
		.recv_mark = pass_recv_mark,
		.shutdown = pass_shutdown,
		.close = pass_close,
		.info = pass_info,
		.trim = pass_trim,
		.zerocopy = inner->ops->zerocopy ? &filter->zerocopy : NULL,
		.loan = inner->ops->loan ? &filter->loan : NULL,
		.reading = inner->ops->reading ? &pass_reading : NULL,
		.message = inner->ops->message ? &pass_message : NULL,
	};
	filter->zerocopy = (struct net_zerocopy_ops){
		.send_held = pass_send_held,
		.intact = pass_intact,
		.ended = pass_ended,
		.purge = pass_purge,
	};
	filter->loan = (struct net_loan_ops){
		.lends = pass_lends,
		.lend = pass_lend,
		.lent = pass_lent,
		.torn = pass_torn,
	};
	filter->base.ops = &filter->ops;
}

size_t filter_iov_bytes(const struct iovec *iov, int niov)
{
	size_t bytes = 0;

	for (int i = 0; i < niov; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

int filter_iov_cut(const struct iovec *iov, int niov, size_t max, struct iovec *out)
{
	int n = 0;

	while (n < niov && max) {
		out[n] = iov[n];
		if (out[n].iov_len > max)
			out[n].iov_len = max;
		max -= out[n++].iov_len;
	}
	return n;
}

static const struct {
	const char *name;
	size_t offset;
	uint64_t most;
} fault_keys[] = {
	{"seed", offsetof(struct filter_fault_opts, seed), UINT64_MAX},
	{"drop", offsetof(struct filter_fault_opts, drop), 1u << 30},
	{"short", offsetof(struct filter_fault_opts, short_calls), 100},
	{"again", offsetof(struct filter_fault_opts, again), 100},
	{"flip", offsetof(struct filter_fault_opts, flip), 1u << 30},
	{"delay", offsetof(struct filter_fault_opts, delay), 10000000},
	{"first", offsetof(struct filter_fault_opts, first), 1},
};

/* key=value, len characters. */
static tcpx_status fault_key(const char *text, size_t len, struct filter_fault_opts *opts)
{
	for (size_t i = 0; i < sizeof(fault_keys) / sizeof(fault_keys[0]); i++) {
		size_t name = strlen(fault_keys[i].name);
		uint64_t value = 0;
		char *end = NULL;

		if (len < name + 2 || strncmp(text, fault_keys[i].name, name) || text[name] != '=')
			continue;
		if (text[name + 1] >= '0' && text[name + 1] <= '9')
			value = strtoull(text + name + 1, &end, 0);
		if (end != text + len || value > fault_keys[i].most)
			return error_set(TCPX_ERR_INVALID, 0, "filter fault: value in '%.*s'",
					 (int)len, text);
		*(uint64_t *)((char *)opts + fault_keys[i].offset) = value;
		return TCPX_OK;
	}
	return error_set(TCPX_ERR_INVALID, 0, "filter fault has no key '%.*s'", (int)len, text);
}

/* One filter of a spec, len characters: with chan NULL it is only looked at. */
static tcpx_status wrap_one(const char *text, size_t len, struct net_chan *chan,
			    struct net_chan **out_chan)
{
	struct filter_fault_opts opts = {.seed = 1};
	const char *end = text + len, *colon = memchr(text, ':', len);
	size_t name = colon ? (size_t)(colon - text) : len;
	tcpx_status status = TCPX_OK;

	if (name == 5 && !strncmp(text, "check", 5) && !colon)
		return chan ? filter_check_create(chan, out_chan) : TCPX_OK;
	if (name != 5 || strncmp(text, "fault", 5))
		return error_set(TCPX_ERR_INVALID, 0, "no filter '%.*s'", (int)len, text);
	while (!status && colon) {
		const char *key = colon + 1;

		colon = memchr(key, ':', (size_t)(end - key));
		status = fault_key(key, (size_t)((colon ? colon : end) - key), &opts);
	}
	if (status || !chan)
		return status;
	return filter_fault_create(&opts, chan, out_chan);
}

/* Every filter of spec in turn; *chan is NULL for a mere look, else the outermost so far. */
static tcpx_status wrap_all(const char *spec, struct net_chan **chan)
{
	tcpx_status status = TCPX_OK;

	while (!status && *spec) {
		size_t len = strcspn(spec, ",");

		status = wrap_one(spec, len, *chan, chan);
		spec += len;
		spec += *spec == ',';
	}
	return status;
}

/* Takes the filters off again, down to chan: its owner still has it. */
static void unwrap(struct net_chan *outer, struct net_chan *chan)
{
	while (outer != chan) {
		struct net_chan *inner = inner_of(outer);

		free(outer);
		outer = inner;
	}
}

tcpx_status filter_wrap(const char *spec, struct net_chan *chan, struct net_chan **out_chan)
{
	struct net_chan *outer = NULL;
	tcpx_status status;

	if (!spec)
		spec = "";
	status = wrap_all(spec, &outer); /* mistakes show before anything is made */
	if (status)
		return status;
	outer = chan;
	status = wrap_all(spec, &outer);
	if (status)
		unwrap(outer, chan);
	else
		*out_chan = outer;
	return status;
}

static char *chosen; /* by filter_choose(); NULL: the environment says */

void filter_choose(const char *spec)
{
	free(chosen);
	chosen = spec ? strdup(spec) : NULL;
}

/* A mistake is said when the session opens, not when the first channel comes. */
static tcpx_status filter_spec(char **out_spec)
{
	const char *spec = chosen ? chosen : getenv("TESTS_FILTERS");
	struct net_chan *none = NULL;
	tcpx_status status;

	if (!spec || !*spec)
		return TCPX_OK;
	status = wrap_all(spec, &none);
	if (status != TCPX_OK)
		return status;
	*out_spec = strdup(spec);
	return *out_spec ? TCPX_OK : error_set(TCPX_ERR_NO_MEMORY, 0, "filters");
}

static const struct net_wrapper filter_wrapper = {.spec = filter_spec, .wrap = filter_wrap};

__attribute__((constructor)) static void filter_enrol(void)
{
	net_wrapper = &filter_wrapper;
}
