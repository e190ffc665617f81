/* SPDX-License-Identifier: Apache-2.0 */
/* The intrusive list keeps order and survives removal while it is walked. */
#include "unit.h"

#include "base/list.h"

struct item {
	int value;
	struct list_node node;
};

static int sum_in_order(const struct list_node *head)
{
	struct list_node *pos;
	int digits = 0;

	LIST_FOREACH(pos, head)
		digits = digits * 10 + LIST_ENTRY(pos, struct item, node)->value;
	return digits;
}

static void keeps_order(void **state)
{
	struct item a = {1}, b = {2}, c = {3};
	struct list_node head;

	(void)state;
	list_init(&head);
	assert_true(list_empty(&head));
	assert_null(list_pop_front(&head));
	list_push_back(&head, &b.node);
	list_push_back(&head, &c.node);
	list_push_front(&head, &a.node);
	assert_int_equal(sum_in_order(&head), 123);
	list_remove(&b.node);
	list_remove(&b.node); /* harmless */
	assert_int_equal(sum_in_order(&head), 13);
	list_insert_before(&c.node, &b.node);
	assert_int_equal(sum_in_order(&head), 123);
	assert_ptr_equal(list_pop_front(&head), &a.node);
	assert_int_equal(sum_in_order(&head), 23);
}

static void removal_while_walking(void **state)
{
	struct item items[10];
	struct list_node head, *pos, *tmp;

	(void)state;
	list_init(&head);
	for (int i = 0; i < 10; i++) {
		items[i].value = i;
		list_push_back(&head, &items[i].node);
	}
	LIST_FOREACH_SAFE(pos, tmp, &head)
		if (LIST_ENTRY(pos, struct item, node)->value % 2)
			list_remove(pos);
	assert_int_equal(sum_in_order(&head), 2468);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_order),
		cmocka_unit_test(removal_while_walking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
