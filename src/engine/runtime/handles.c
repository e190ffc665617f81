/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of objects that are found by index and generation (handles.h). The memory of an object is
 * never used for anything else. */
#include "engine/runtime/handles.h"

#include <stdlib.h>
#include <string.h>

void handles_init(struct handles *table, size_t size, uint64_t tag, void (*last)(void *object))
{
	memset(table, 0, sizeof(*table));
	pthread_mutex_init(&table->lock, NULL);
	table->size = (size + 63) & ~(size_t)63;
	table->tag = tag;
	table->last = last;
}

void handles_fini(struct handles *table)
{
	for (unsigned i = 0; i < HANDLES_CHUNKS && table->chunk[i]; i++)
		free(table->chunk[i]);
	pthread_mutex_destroy(&table->lock);
}

static struct handle_slot *handle_slot_at(struct handles *table, uint32_t index)
{
	char *chunk;

	if (index / HANDLES_CHUNK >= HANDLES_CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&table->chunk[index / HANDLES_CHUNK], memory_order_acquire);
	if (!chunk)
		return NULL;
	return (struct handle_slot *)(chunk + (index % HANDLES_CHUNK) * table->size);
}

static struct handle_slot *handle_slot_new(struct handles *table)
{
	uint32_t index = table->count;
	struct handle_slot *slot;

	if (index / HANDLES_CHUNK >= HANDLES_CHUNKS)
		return NULL;
	if (index % HANDLES_CHUNK == 0) {
		char *chunk = calloc(HANDLES_CHUNK, table->size);

		if (!chunk)
			return NULL;
		atomic_store_explicit(&table->chunk[index / HANDLES_CHUNK], chunk,
				      memory_order_release);
	}
	table->count++;
	slot = handle_slot_at(table, index);
	slot->index = index;
	return slot;
}

void *handle_take(struct handles *table)
{
	struct handle_slot *slot;

	pthread_mutex_lock(&table->lock);
	slot = table->free;
	if (slot)
		table->free = slot->next_free;
	else
		slot = handle_slot_new(table);
	pthread_mutex_unlock(&table->lock);
	if (!slot)
		return NULL;
	memset(slot + 1, 0, table->size - sizeof(*slot));
	slot->generation++;
	slot->next_free = NULL;
	atomic_store(&slot->refs, 1);
	atomic_fetch_add(&table->live, 1);
	return slot;
}

void handle_publish(struct handles *table, void *object)
{
	struct handle_slot *slot = object;
	uint64_t id = table->tag | ((uint64_t)(slot->generation & 0x7fffffff) << 28) | slot->index;

	atomic_store_explicit(&slot->id, id, memory_order_release);
}

void handle_hide(void *object)
{
	struct handle_slot *slot = object;

	atomic_store_explicit(&slot->id, 0, memory_order_release);
}

void handle_give(struct handles *table, void *object)
{
	struct handle_slot *slot = object;

	atomic_store_explicit(&slot->id, 0, memory_order_release);
	pthread_mutex_lock(&table->lock);
	slot->next_free = table->free;
	table->free = slot;
	pthread_mutex_unlock(&table->lock);
	atomic_fetch_sub(&table->live, 1);
}

void *handle_find(struct handles *table, uint64_t id)
{
	struct handle_slot *slot = handle_slot_at(table, (uint32_t)(id & 0xfffffff));

	if (!slot || !id || atomic_load_explicit(&slot->id, memory_order_acquire) != id)
		return NULL;
	return slot;
}

void *handle_get(struct handles *table, uint64_t id)
{
	struct handle_slot *slot = handle_find(table, id);
	uint32_t refs = slot ? atomic_load(&slot->refs) : 0;

	/* An object without references is free or about to be freed, and cannot get a reference
	 * here. */
	while (refs && !atomic_compare_exchange_weak(&slot->refs, &refs, refs + 1))
		;
	if (!refs)
		return NULL;
	if (atomic_load(&slot->id) == id)
		return slot;
	handle_put(table, slot); /* the object was released or reused in between */
	return NULL;
}

void handle_put(struct handles *table, void *object)
{
	struct handle_slot *slot = object;

	if (atomic_fetch_sub(&slot->refs, 1) == 1)
		table->last(object);
}

void *handle_claim(struct handles *table, uint64_t id)
{
	struct handle_slot *slot = handle_find(table, id);

	return slot && atomic_compare_exchange_strong(&slot->id, &id, 0) ? slot : NULL;
}

void *handle_at(struct handles *table, uint32_t index)
{
	struct handle_slot *slot = handle_slot_at(table, index);

	if (!slot || !atomic_load_explicit(&slot->id, memory_order_acquire))
		return NULL;
	return slot;
}
