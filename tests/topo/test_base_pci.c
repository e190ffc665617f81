/* SPDX-License-Identifier: Apache-2.0 */
/* PCI addresses: every spelling of one is one, and nothing else is. */
#include "unit/unit.h"

#include "base/pci.h"

static void spellings(void **state)
{
	static const char *const same[] = {"0000:0a:00.0", "0a:00.0", "00000000:0A:00.0",
					   "0:a:0.0"};
	static const char *const wrong[] = {"",
					    "0a",
					    "0a:00",
					    "0a:00.",
					    "0a:00.8",
					    "0a:20.0",
					    "0a:00.0 ",
					    "0a:00.00",
					    "100:00.0",
					    ":0a:00.0",
					    "0000:0a:00",
					    "0000:0a:00.0x",
					    "000000000:0a:00.0",
					    "0000:0a:0g.0",
					    "-1:0a:00.0"};
	char text[PCI_TEXT_MAX];
	pci_addr addr;

	(void)state;
	for (unsigned i = 0; i < sizeof(same) / sizeof(*same); i++) {
		assert_int_equal(pci_parse(same[i], &addr), 0);
		assert_int_equal(addr, 0x0a00);
	}
	assert_string_equal(pci_format(addr, text), "0000:0a:00.0");
	addr = 7;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(pci_parse(wrong[i], &addr), -1);
	assert_int_equal(addr, 7);
	assert_int_equal(pci_parse("ffffffff:ff:1f.7", &addr), 0);
	assert_string_equal(pci_format(addr, text), "ffffffff:ff:1f.7");
	assert_int_equal(pci_parse("10000:e1:03.2", &addr), 0);
	assert_string_equal(pci_format(addr, text), "10000:e1:03.2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(spellings)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
