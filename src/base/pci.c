/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and formatting of PCI addresses. */
#include "base/pci.h"

#include <stdio.h>

static int pci_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses `min` to `max` hex digits and returns a pointer to the text after them. Returns NULL if
 * there are fewer or more digits. */
static const char *take_hex(const char *text, unsigned min, unsigned max, uint32_t *out)
{
	uint32_t value = 0;
	unsigned len = 0;

	for (; len <= max && pci_hex_digit(text[len]) >= 0; len++)
		value = value << 4 | (uint32_t)pci_hex_digit(text[len]);
	if (len < min || len > max)
		return NULL;
	*out = value;
	return text + len;
}

int pci_parse(const char *text, pci_addr *out_addr)
{
	uint32_t part, domain = 0, bus, device, function;

	text = take_hex(text, 1, 8, &part);
	if (!text || *text != ':')
		return -1;
	bus = part;
	text = take_hex(text + 1, 1, 2, &part);
	if (text && *text == ':') {
		domain = bus;
		bus = part;
		text = take_hex(text + 1, 1, 2, &part);
	}
	device = part;
	if (!text || *text != '.')
		return -1;
	text = take_hex(text + 1, 1, 1, &function);
	if (!text || *text || bus > 0xff || device > 0x1f || function > 7)
		return -1;
	*out_addr = (pci_addr)domain << 16 | bus << 8 | device << 3 | function;
	return 0;
}

char *pci_format(pci_addr addr, char buf[PCI_TEXT_MAX])
{
	snprintf(buf, PCI_TEXT_MAX, "%04x:%02x:%02x.%x", (unsigned)(addr >> 16),
		 (unsigned)(addr >> 8) & 0xff, (unsigned)(addr >> 3) & 0x1f, (unsigned)addr & 7);
	return buf;
}
