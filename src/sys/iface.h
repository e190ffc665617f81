/* SPDX-License-Identifier: Apache-2.0 */
/* Local interface addresses, and the expansion of a user's bind list. */
#ifndef SYS_IFACE_H
#define SYS_IFACE_H

#include <net/if.h>
#include <sys/socket.h>

#include <tcpx/types.h>

/* One address of one interface that is up; port 0. */
struct sys_iface {
	char name[IF_NAMESIZE];
	struct sockaddr_storage addr;
	unsigned prefix;       /* bits of its subnet */
	int loopback, carrier; /* carrier: the link is up (IFF_LOWER_UP) */
};

/* Lists the addresses of all interfaces that are up; the caller frees the list with free().
 * ERR_SYSTEM; ERR_NO_MEMORY; ERR_NO_DESCRIPTORS. */
tcpx_status sys_iface_list(struct sys_iface **out_ifaces, unsigned *out_count);

/* Expands a bind list to addresses with port 0, without duplicates. Entries are separated by
 * commas, blanks around them are ignored:
 *   auto           the first address (not a link-local one) of every interface that has a carrier,
 *                  does not belong to a container, and is at least half as fast as the fastest or
 *                  of unknown speed; 127.0.0.1 if there is none; at most max
 *   ADDRESS        a local address, [brackets] allowed; link-local without %IF if only one
 *                  interface has it; a wildcard; localhost is 127.0.0.1
 *   ADDRESS/BITS   the first address of every interface in that subnet
 *   IF             its first v4 and its first v6 address (link-local only if it has no other); an
 *                  alternative name works too. If no interface has the name: all with a carrier
 *                  whose names begin with it. =IF: only the exact name
 *   GLOB           all interfaces that match: eth*, mlx[0-3]
 *   ^A,B           auto without the interfaces of the entries; only at the start of the list
 * ERR_ADDRESS: no local address matches, the next step lists what there is; ERR_INVALID: a
 * malformed entry; ERR_LIMIT: more than max. */
tcpx_status sys_iface_expand(const char *list, struct sockaddr_storage *out_addrs, unsigned max,
			     unsigned *out_count);
/* As sys_iface_expand, but for the given interfaces instead of those of this host. */
tcpx_status sys_iface_expand_of(const char *list, const struct sys_iface *ifaces, unsigned nifaces,
				struct sockaddr_storage *out_addrs, unsigned max,
				unsigned *out_count);

/* Adds the interface to a link-local address that has none, if only one interface has a link-local
 * address; otherwise changes nothing. */
void sys_iface_complete(struct sockaddr_storage *addr);

/* The index of an interface by its name or an alternative one; 0: no such interface. */
unsigned sys_iface_number(const char *name);
/* The index of the interface that has the address; 0: none. */
unsigned sys_iface_index(const struct sockaddr_storage *addr);
/* Whether an interface that is up and has a carrier has the address; 1 also if the interfaces
 * cannot be listed. */
int sys_iface_carrier(const struct sockaddr_storage *addr);

/* Whether `remote` is in the subnet of the interface address, so that packets need no gateway. A
 * link-local `remote` that names an interface must name this one. */
int sys_iface_direct(const struct sys_iface *iface, const struct sockaddr_storage *remote);

#endif
