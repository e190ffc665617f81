/* SPDX-License-Identifier: Apache-2.0 */
/* Adds pointers to a table (see pointers.h). */
#include "trace/pointers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Returns the entries of a table, or NULL if there is no memory. The first call maps them. Called
 * under the table's lock. */
static char *entries_of(struct trace_table *table)
{
	char *entries = atomic_load_explicit(&table->entries, memory_order_relaxed);
	size_t count = ((size_t)1 << table->bits) + TRACE_TABLE_NEAR;

	if (entries)
		return entries;
	entries = mmap(NULL, count * table->entry_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (entries == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&table->entries, entries, memory_order_release);
	return entries;
}

void *trace_table_add(struct trace_table *table, const void *pointer)
{
	struct trace_entry *found = trace_table_find(table, pointer), *idle = NULL;
	uintptr_t key = (uintptr_t)pointer;
	size_t at = trace_table_hash(table, key);
	int err = errno;
	char *entries;

	if (found) {
		atomic_store_explicit(&found->live, 1, memory_order_relaxed);
		return found;
	}
	if (!key)
		return NULL;
	pthread_mutex_lock(&table->lock);
	entries = entries_of(table);
	for (unsigned i = 0; entries && i < TRACE_TABLE_NEAR && !found; i++) {
		struct trace_entry *entry =
			(struct trace_entry *)(entries + (at + i) * table->entry_bytes);
		uintptr_t there = atomic_load_explicit(&entry->key, memory_order_relaxed);

		if (!there || there == key)
			found = entry;
		else if (!idle && !atomic_load_explicit(&entry->live, memory_order_relaxed))
			idle = entry;
	}
	if (!found)
		found = idle;
	if (found && atomic_load_explicit(&found->key, memory_order_relaxed) != key)
		memset((char *)found + sizeof(*found), 0, table->entry_bytes - sizeof(*found));
	if (found) {
		atomic_store_explicit(&found->live, 1, memory_order_relaxed);
		atomic_store_explicit(&found->key, key, memory_order_release);
	}
	pthread_mutex_unlock(&table->lock);
	errno = err;
	return found;
}
