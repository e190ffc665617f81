/* SPDX-License-Identifier: Apache-2.0 */
/* PCI addresses. They identify a GPU or a NIC in all programs, while indices depend on who
 * counts. */
#ifndef BASE_PCI_H
#define BASE_PCI_H

#include <stddef.h>
#include <stdint.h>

/* domain << 16 | bus << 8 | device << 3 | function. Equal values are the same device. */
typedef uint64_t pci_addr;

#define PCI_NONE 0	/* 0000:00:00.0 is a host bridge, never a GPU or a NIC */
#define PCI_TEXT_MAX 20 /* room for "10000:04:00.0", the widest domain and the NUL */

/* Parses "0000:04:00.0", "04:00.0" (domain 0), "00000000:04:00.0", in upper or lower case, without
 * trailing text. Returns 0, or -1 if malformed; then *out_addr is unchanged. */
int pci_parse(const char *text, pci_addr *out_addr);

/* Writes the address as sysfs and RxDM spell it: "0000:04:00.0", lower case. Returns buf. */
char *pci_format(pci_addr addr, char buf[PCI_TEXT_MAX]);

#endif
