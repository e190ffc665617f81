/* SPDX-License-Identifier: Apache-2.0 */
/* PCI addresses. Every program identifies a GPU or a NIC by the same PCI address, while each may
 * number the devices differently. */
#ifndef BASE_PCI_H
#define BASE_PCI_H

#include <stddef.h>
#include <stdint.h>

/* domain << 16 | bus << 8 | device << 3 | function. Equal values are the same device. */
typedef uint64_t pci_addr;

#define PCI_NONE 0	/* 0000:00:00.0 is a host bridge, never a GPU or a NIC */
#define PCI_TEXT_MAX 20 /* room for "10000000:04:00.0", with the widest domain, and the NUL */

/* Parses "0000:04:00.0", "00000000:04:00.0" or "04:00.0" (domain 0), in upper or lower case.
 * Returns 0. Returns -1 if the text is malformed or continues after the address; *out_addr is then
 * unchanged. */
int pci_parse(const char *text, pci_addr *out_addr);

/* Writes the address in lower case, as sysfs and RxDM do: "0000:04:00.0". Returns buf. */
char *pci_format(pci_addr addr, char buf[PCI_TEXT_MAX]);

#endif
