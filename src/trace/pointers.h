/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that map a plugin's pointer to an entry of fixed size. Entries are found without a lock
 * and added under the table's lock. An entry never moves. A table never grows: if all places near
 * the hash of a new pointer are taken, the pointer gets the place of an idle entry, or no entry if
 * none is idle.
 */
#ifndef TRACE_POINTERS_H
#define TRACE_POINTERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_TABLE_NEAR 16u /* places, from the hash on, where a pointer may have its entry */

struct trace_entry {	       /* first member of each entry */
	_Atomic uintptr_t key; /* the pointer; 0 if the place was never used */
	_Atomic uint32_t live; /* 0 if idle: the object has ended; the place may be reused */
};

struct trace_table {
	pthread_mutex_t lock;
	_Atomic(char *) entries;    /* mapped at first use */
	unsigned bits, entry_bytes; /* 2^bits is the number of hash values */
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

/* Returns the entry of the pointer, which may be idle, or NULL if the pointer has no
 * entry. */
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

/* Returns the entry of the pointer and marks it as live; adds an entry if the pointer has no
 * entry. A new entry is zero except for its key and `live`. Returns NULL if no place is free or
 * memory is short. */
void *trace_table_add(struct trace_table *table, const void *pointer);

#endif
