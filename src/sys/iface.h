/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of local interfaces, and the expansion of a user's bind list. */
#ifndef SYS_IFACE_H
#define SYS_IFACE_H

#include <net/if.h>
#include <sys/socket.h>

#include <tcpx/types.h>

/* An address of an interface that is up. The port is 0. */
struct sys_iface {
	char name[IF_NAMESIZE];
	struct sockaddr_storage addr;
	unsigned prefix;       /* bits of the address's subnet */
	int loopback, carrier; /* `carrier`: the interface has a carrier (IFF_LOWER_UP) */
};

/* Lists the addresses of all interfaces that are up. The caller frees the list with free(). Returns
 * ERR_SYSTEM, ERR_NO_MEMORY or ERR_NO_DESCRIPTORS on failure. */
tcpx_status sys_iface_list(struct sys_iface **out_ifaces, unsigned *out_count);

/* Expands a bind list to addresses with port 0, without duplicates. Commas separate the entries of
 * the list; blanks around an entry are ignored. An entry is one of:
 *   auto           of each interface, the first address that is not link-local. Left out are
 *                  interfaces without a carrier, loopback, those of containers, and those known
 *                  to be less than half as fast as the fastest of the others. 127.0.0.1 if no
 *                  address is left. At most `max` in all
 *   ADDRESS        an address of this host, also in [brackets]; a link-local address without %IF
 *                  if only one interface has it; a wildcard; localhost is 127.0.0.1
 *   ADDRESS/BITS   the first address in that subnet of every interface with a carrier
 *   IF             the first v4 and the first v6 address of an interface, named by its name or an
 *                  alternative name. A link-local one is used only if the interface has no other.
 *                  If no interface has the name: all with a carrier whose names begin with it
 *   =IF            as IF, but only by the exact name
 *   GLOB           as IF, for every interface with a carrier whose name matches, such as mlx[0-3]
 *   ^A,B           as auto, without the interfaces that A and B name; at the start of a list only
 * Returns ERR_ADDRESS if an entry matches no local address; the error's advice lists the local
 * addresses. Returns ERR_INVALID if an entry is malformed, ERR_LIMIT if there are more than `max`
 * addresses. */
tcpx_status sys_iface_expand(const char *list, struct sockaddr_storage *out_addrs, unsigned max,
			     unsigned *out_count);
/* Like sys_iface_expand, but with `ifaces` as the interface addresses of this host. */
tcpx_status sys_iface_expand_of(const char *list, const struct sys_iface *ifaces, unsigned nifaces,
				struct sockaddr_storage *out_addrs, unsigned max,
				unsigned *out_count);

/* Sets the scope id of a link-local address that has none, if only one interface has a link-local
 * address. Otherwise does nothing. */
void sys_iface_complete(struct sockaddr_storage *addr);

/* Returns the index of the interface with this name or alternative name. Returns 0 if no interface
 * has it, the name is too long, or the kernel cannot be asked over netlink. */
unsigned sys_iface_number(const char *name);
/* Returns the index of the interface that is up and has the address, or 0 if there is none. */
unsigned sys_iface_index(const struct sockaddr_storage *addr);
/* Whether the address belongs to an interface that is up and has a carrier. Also returns 1 if the
 * interfaces cannot be listed. */
int sys_iface_carrier(const struct sockaddr_storage *addr);

/* Whether `remote` is in the subnet of the interface address, so that packets need no gateway. If
 * `remote` is link-local with a scope id, the scope id must be that of this interface. */
int sys_iface_direct(const struct sys_iface *iface, const struct sockaddr_storage *remote);

#endif
