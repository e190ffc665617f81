/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list. The head is a node that belongs to no element. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>

struct list_node {
	struct list_node *next, *prev;
};

#define LIST_ENTRY(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define LIST_FOREACH(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)
#define LIST_FOREACH_SAFE(pos, tmp, head)                                                          \
	for (pos = (head)->next, tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

/* Initialises `node` as the head of an empty list, or as a node that is in no list. */
static inline void list_init(struct list_node *node)
{
	node->next = node->prev = node;
}

static inline int list_empty(const struct list_node *head)
{
	return head->next == head;
}

static inline void list_insert_before(struct list_node *where, struct list_node *node)
{
	node->prev = where->prev;
	node->next = where;
	where->prev->next = node;
	where->prev = node;
}

static inline void list_push_back(struct list_node *head, struct list_node *node)
{
	list_insert_before(head, node);
}

static inline void list_push_front(struct list_node *head, struct list_node *node)
{
	list_insert_before(head->next, node);
}

/* Removes the node from its list. Does nothing to an initialised node that is in no list. */
static inline void list_remove(struct list_node *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Moves all nodes of the list `from` to the end of the list `head`. */
static inline void list_splice(struct list_node *head, struct list_node *from)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

/* Removes the first node of a list and returns it. Returns NULL if the list is empty. */
static inline struct list_node *list_pop_front(struct list_node *head)
{
	struct list_node *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

#endif
