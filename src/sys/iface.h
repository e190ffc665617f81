/* SPDX-License-Identifier: Apache-2.0 */
/* Local interface addresses, and what a user's bind list means. */
#ifndef SYS_IFACE_H
#define SYS_IFACE_H

#include <net/if.h>
#include <sys/socket.h>

#include <tcpx/types.h>

/* One address of one interface that is up; port 0. */
struct sys_iface {
	char name[IF_NAMESIZE];
	struct sockaddr_storage addr;
	unsigned prefix; /* bits of its subnet */
	int loopback, carrier;
};

/* All of them, however many; the caller frees the list with free(). ERR_SYSTEM; ERR_NO_MEMORY;
 * ERR_NO_DESCRIPTORS. */
tcpx_status sys_iface_list(struct sys_iface **out_ifaces, unsigned *out_count);

/* A bind list to addresses with port 0, without duplicates. Its entries, with commas between and
 * blanks around:
 *   auto           the first address of every interface with a carrier that is no container's and
 *                  at least half as fast as the fastest; loopback where there is none
 *   ADDRESS        one of ours, [brackets] allowed; link-local without %IF where one IF has it;
 *                  a wildcard; localhost is 127.0.0.1
 *   ADDRESS/BITS   every interface's first address in that subnet
 *   IF             its first v4 and its first v6 address (link-local only when it has nothing
 *                  else); an alternative name will do, and where no interface has the name, all
 *                  whose names begin so and that have a carrier; =IF: the exact name alone
 *   GLOB           likewise: eth*, mlx[0-3]
 *   ^A,B           what auto takes, without what the entries mean; only at the start of the list
 * ERR_ADDRESS: nothing of ours, the next step names what there is; ERR_INVALID: no entry;
 * ERR_LIMIT: more than max. */
tcpx_status sys_iface_expand(const char *list, struct sockaddr_storage *out_addrs, unsigned max,
			     unsigned *out_count);
/* The same, of these interfaces. */
tcpx_status sys_iface_expand_of(const char *list, const struct sys_iface *ifaces, unsigned nifaces,
				struct sockaddr_storage *out_addrs, unsigned max,
				unsigned *out_count);

/* A link-local address that names no interface gets the only one that has such addresses. */
void sys_iface_complete(struct sockaddr_storage *addr);

/* The index of an interface by its name or an alternative one; 0: there is none. */
unsigned sys_iface_number(const char *name);
/* The index of the interface that has the address; 0: none has. */
unsigned sys_iface_index(const struct sockaddr_storage *addr);
/* 0: the address is on no interface that is up with a carrier; 1 also when nobody can tell. */
int sys_iface_carrier(const struct sockaddr_storage *addr);

/* 1 when remote lies in the interface address's own subnet, so that packets need no gateway. */
int sys_iface_direct(const struct sys_iface *iface, const struct sockaddr_storage *remote);

#endif
