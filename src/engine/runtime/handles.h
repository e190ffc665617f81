/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: objects that are found by index and generation without a lock. The memory of an object
 * stays an object of the same type until the table is freed. So a handle that is stale, or is
 * released at the same time, leads to an object with another id, never to freed memory.
 */
#ifndef ENGINE_RUNTIME_HANDLES_H
#define ENGINE_RUNTIME_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HANDLES_CHUNK 256
#define HANDLES_CHUNKS 4096

/* First member of every object in a table. */
struct handle_slot {
	_Atomic uint64_t id; /* the handle; 0: the object is free or hidden */
	/* number of references; 0: the object is free or about to be freed, and only handle_take()
	 * changes the number */
	_Atomic uint32_t refs;
	uint32_t index, generation;
	struct handle_slot *next_free;
};

struct handles {
	pthread_mutex_t lock;
	size_t size;		    /* size of an object */
	uint64_t tag;		    /* or-ed into ids, so that ids of different tables differ */
	void (*last)(void *object); /* called when handle_put() has dropped the last reference */
	_Atomic(char *) chunk[HANDLES_CHUNKS];
	uint32_t count; /* number of objects made so far, free ones included */
	struct handle_slot *free;
	_Atomic uint32_t live; /* number of objects that are not free */
};

void handles_init(struct handles *table, size_t size, uint64_t tag, void (*last)(void *object));
void handles_fini(struct handles *table);

/* Takes a free object, or makes one. The memory after the struct handle_slot is zero, and the
 * object has one reference. It can be found only after handle_publish(). Returns NULL if there is
 * no memory, or if the table is full. */
void *handle_take(struct handles *table);
void handle_publish(struct handles *table, void *object);
/* Makes the object impossible to find. Its memory stays as it is until handle_give(). */
void handle_hide(void *object);
void handle_give(struct handles *table, void *object);

/* Returns the object of an id, without a reference, or NULL if the id is stale. Another thread may
 * release the object at any time. Before a caller does more than read the object, it must check the
 * id again under the object's own lock. */
void *handle_find(struct handles *table, uint64_t id);

/* Like handle_find(), but takes a reference, so that the object is neither freed nor reused.
 * Another thread may still hide the object. */
void *handle_get(struct handles *table, uint64_t id);
void handle_put(struct handles *table, void *object);

/* Like handle_find(), but also hides the object. Only one of several concurrent callers gets the
 * object, and must drop the reference that belonged to the handle. */
void *handle_claim(struct handles *table, uint64_t id);

/* Returns the object at `index`, which is below `count`, for clean-up and scans. Returns NULL if
 * the object is free or hidden. */
void *handle_at(struct handles *table, uint32_t index);

#endif
