/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications that arrive and are not published yet, found by their number. */
#include <string.h>

#include "core/link_priv.h"

/* The peer chooses the numbers, so the multiplier is one that it does not know. */
static uint32_t bucket(const struct core_incoming *in, uint64_t number, bool standalone)
{
	return (uint32_t)(((number << 1 | standalone) * in->multiplier) >> (64 - in->bits));
}

void core_incoming_init(struct core_link *link)
{
	struct core_incoming *in = &link->incoming;

	list_init(&in->list);
	in->heads = in->few;
	in->bits = CORE_INCOMING_BITS;
	memcpy(&in->multiplier, link->cfg.secret, sizeof(in->multiplier));
	in->multiplier = (in->multiplier ^ 0x9e3779b97f4a7c15) | 1;
}

static void heads_free(struct core_link *link)
{
	struct core_incoming *in = &link->incoming;
	size_t bytes = sizeof(*in->heads) << in->bits;

	if (in->heads != in->few)
		link->cfg.ops->note_free(link->cfg.arg, in->heads, bytes);
	memset(in->few, 0, sizeof(in->few));
	in->heads = in->few;
	in->bits = CORE_INCOMING_BITS;
}

/* CORE_NOTE_COST pays for the table, too. Without memory the chains become longer. */
static void grow(struct core_link *link)
{
	struct core_incoming *in = &link->incoming;
	uint32_t bits = in->bits + 1;
	size_t bytes = sizeof(*in->heads) << bits;
	struct core_notify_in **heads = link->cfg.ops->note_alloc(link->cfg.arg, bytes, bytes);
	struct list_node *pos;

	if (!heads)
		return;
	memset(heads, 0, bytes);
	heads_free(link);
	in->heads = heads;
	in->bits = bits;
	LIST_FOREACH(pos, &in->list) {
		struct core_notify_in *msg = LIST_ENTRY(pos, struct core_notify_in, node);
		struct core_notify_in **head = &heads[bucket(in, msg->number, msg->standalone)];

		msg->chain = *head;
		*head = msg;
	}
}

struct core_notify_in *core_incoming_find(struct core_link *link, uint64_t number, bool standalone)
{
	struct core_incoming *in = &link->incoming;
	struct core_notify_in *msg;

	if (!in->count)
		return NULL;
	for (msg = in->heads[bucket(in, number, standalone)]; msg; msg = msg->chain)
		if (msg->number == number && msg->standalone == standalone)
			break;
	return msg;
}

void core_incoming_add(struct core_link *link, struct core_notify_in *msg)
{
	struct core_incoming *in = &link->incoming;
	struct core_notify_in **head;

	if (in->count >> in->bits)
		grow(link);
	head = &in->heads[bucket(in, msg->number, msg->standalone)];
	msg->chain = *head;
	*head = msg;
	list_push_back(&in->list, &msg->node);
	in->count++;
}

void core_incoming_remove(struct core_link *link, struct core_notify_in *msg)
{
	struct core_incoming *in = &link->incoming;
	struct core_notify_in **at = &in->heads[bucket(in, msg->number, msg->standalone)];

	while (*at != msg)
		at = &(*at)->chain;
	*at = msg->chain;
	list_remove(&msg->node);
	if (!--in->count && in->heads != in->few)
		heads_free(link);
}

void core_incoming_fini(struct core_link *link)
{
	core_notes_free(link, &link->incoming.list);
	link->incoming.count = 0;
	heads_free(link);
}
