/* SPDX-License-Identifier: Apache-2.0 */
/* Local interface addresses, and what a user's --bind list means. */
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

/* "IF or address[,...]" to addresses with port 0. "auto": the first address of every interface
 * with a carrier that is no container's and at least half as fast as the fastest; loopback where
 * there is none. An interface gives its first v4 address and its
 * first v6 one (link-local only when it has nothing else); "localhost" is 127.0.0.1; a wildcard
 * address is allowed. Duplicates are dropped. ERR_ADDRESS: not ours, or without an address, the
 * next step names what there is; ERR_INVALID: empty entry; ERR_LIMIT: more than max. */
tcpx_status sys_iface_expand(const char *list, struct sockaddr_storage *out_addrs, unsigned max,
			     unsigned *out_count);

/* The index of the interface that has the address; 0: none has. */
unsigned sys_iface_index(const struct sockaddr_storage *addr);
/* 0: the address is on no interface that is up with a carrier; 1 also when nobody can tell. */
int sys_iface_carrier(const struct sockaddr_storage *addr);

/* 1 when remote lies in the interface address's own subnet, so that packets need no gateway. */
int sys_iface_direct(const struct sys_iface *iface, const struct sockaddr_storage *remote);

#endif
