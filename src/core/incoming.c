/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table, by number, of the notifications that arrive and are not published yet. Piggybacked
 * ones are not in it. */
#include <string.h>

#include "core/link_ops.h"
#include "core/notify.h"

/* Returns the bucket of a notification. The peer chooses the numbers, but the multiplier is secret:
 * so the peer cannot choose numbers that all fall into one bucket. */
static uint32_t incoming_bucket(const struct core_incoming *in, uint64_t number, bool standalone)
{
	return (uint32_t)(((number << 1 | standalone) * in->multiplier) >> (64 - in->bits));
}

void core_incoming_init(struct core_incoming *in, const struct core_config *cfg)
{
	in->ops = cfg->ops;
	in->arg = cfg->arg;
	in->count = 0;
	list_init(&in->list);
	in->heads = in->few;
	in->bits = CORE_INCOMING_BITS;
	memcpy(&in->multiplier, cfg->secret, sizeof(in->multiplier));
	in->multiplier = (in->multiplier ^ 0x9e3779b97f4a7c15) | 1;
}

static void incoming_heads_free(struct core_incoming *in)
{
	size_t bytes = sizeof(*in->heads) << in->bits;

	if (in->heads != in->few)
		in->ops->note_free(in->arg, in->heads, bytes);
	memset(in->few, 0, sizeof(in->few));
	in->heads = in->few;
	in->bits = CORE_INCOMING_BITS;
}

/* Doubles the number of buckets, whose memory is included in CORE_NOTE_COST. If there is no memory,
 * the table stays as it is, with longer chains. */
static void incoming_grow(struct core_incoming *in)
{
	uint32_t bits = in->bits + 1;
	size_t bytes = sizeof(*in->heads) << bits;
	struct core_notify_in **heads = in->ops->note_alloc(in->arg, bytes, bytes);
	struct list_node *pos;

	if (!heads)
		return;
	memset(heads, 0, bytes);
	incoming_heads_free(in);
	in->heads = heads;
	in->bits = bits;
	LIST_FOREACH(pos, &in->list) {
		struct core_notify_in *msg = LIST_ENTRY(pos, struct core_notify_in, node);
		struct core_notify_in **head =
			&heads[incoming_bucket(in, msg->number, msg->standalone)];

		msg->chain = *head;
		*head = msg;
	}
}

struct core_notify_in *core_incoming_find(struct core_incoming *in, uint64_t number,
					  bool standalone)
{
	struct core_notify_in *msg;

	if (!in->count)
		return NULL;
	for (msg = in->heads[incoming_bucket(in, number, standalone)]; msg; msg = msg->chain)
		if (msg->number == number && msg->standalone == standalone)
			break;
	return msg;
}

void core_incoming_add(struct core_incoming *in, struct core_notify_in *msg)
{
	struct core_notify_in **head;

	if (in->count >> in->bits)
		incoming_grow(in);
	head = &in->heads[incoming_bucket(in, msg->number, msg->standalone)];
	msg->chain = *head;
	*head = msg;
	list_push_back(&in->list, &msg->node);
	in->count++;
}

void core_incoming_remove(struct core_incoming *in, struct core_notify_in *msg)
{
	struct core_notify_in **at = &in->heads[incoming_bucket(in, msg->number, msg->standalone)];

	while (*at != msg)
		at = &(*at)->chain;
	*at = msg->chain;
	list_remove(&msg->node);
	if (!--in->count && in->heads != in->few)
		incoming_heads_free(in);
}

void core_incoming_fini(struct core_incoming *in)
{
	struct list_node *node;

	while ((node = list_pop_front(&in->list))) {
		struct core_notify_in *msg = LIST_ENTRY(node, struct core_notify_in, node);

		in->ops->note_free(in->arg, msg, msg->there);
	}
	in->count = 0;
	incoming_heads_free(in);
}
