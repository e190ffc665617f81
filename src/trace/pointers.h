/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables from a foreign pointer to an entry of fixed size: found without a lock, added under one.
 * An entry stays where it is; an idle one gives its place to a new pointer when the places near its
 * hash are taken. So nothing grows, and a pointer that finds no place is not known.
 */
#ifndef TRACE_POINTERS_H
#define TRACE_POINTERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_TABLE_NEAR 16u

struct trace_entry { /* the head of each entry */
	_Atomic uintptr_t key;
	_Atomic uint32_t live;
};

struct trace_table {
	pthread_mutex_t lock;
	_Atomic(char *) entries; /* mapped at first use */
	unsigned bits, entry_bytes;
};

#define TRACE_TABLE(name_bits, type)                                                               \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .bits = (name_bits),                            \
		.entry_bytes = sizeof(type)                                                        \
	}

static inline size_t trace_table_hash(const struct trace_table *table, uintptr_t key)
{
	return (size_t)(((uint64_t)key * 0x9e3779b97f4a7c15ull) >> (64 - table->bits));
}

/* NULL: not there. */
static inline void *trace_table_find(struct trace_table *table, const void *pointer)
{
	char *entries = atomic_load_explicit(&table->entries, memory_order_acquire);
	uintptr_t key = (uintptr_t)pointer;
	size_t at = trace_table_hash(table, key);

	if (!entries || !key)
		return NULL;
	for (unsigned i = 0; i < TRACE_TABLE_NEAR; i++) {
		struct trace_entry *entry =
			(struct trace_entry *)(entries + (at + i) * table->entry_bytes);
		uintptr_t there = atomic_load_explicit(&entry->key, memory_order_acquire);

		if (there == key)
			return entry;
		if (!there)
			return NULL;
	}
	return NULL;
}

/* The entry of the pointer, live; a new one is zero but for its key. NULL: no place. */
void *trace_table_add(struct trace_table *table, const void *pointer);

#endif
