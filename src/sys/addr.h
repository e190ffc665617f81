/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses: text, comparison, loopback. No look-ups of names. */
#ifndef SYS_ADDR_H
#define SYS_ADDR_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tcpx/types.h>

#define SYS_ADDR_TEXT 72 /* "[v6%interface]:port" and the NUL */

/* "10.0.0.1", "fe80::1%eth0", "::1" (no brackets, no port) with the given port.
 * ERR_INVALID: not a literal, or a scope that is no interface. Sets no last error. */
tcpx_status sys_addr_parse(const char *text, uint16_t port, struct sockaddr_storage *out_addr);

#define SYS_HOST_MAX 256 /* a name of DNS and the NUL */

/* Splits "host", "host:port", "[v6]:port" or "v6" as users write it; *out_port stays where none is
 * given. NULL; or why it is none of them, with the right spelling where that is known: valid until
 * the thread's next call. */
const char *sys_addr_split(const char *text, char host[SYS_HOST_MAX], uint16_t *out_port);

/* "10.0.0.1:80", "[fe80::1%eth0]:80"; without the port "10.0.0.1", "fe80::1%eth0". Returns buf. */
const char *sys_addr_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT]);
const char *sys_addr_host_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT]);

socklen_t sys_addr_len(const struct sockaddr_storage *addr);
uint16_t sys_addr_port(const struct sockaddr_storage *addr);
void sys_addr_set_port(struct sockaddr_storage *addr, uint16_t port);

/* 127/8, ::1, and 127/8 mapped into v6. */
int sys_addr_is_loopback(const struct sockaddr_storage *addr);
int sys_addr_is_any(const struct sockaddr_storage *addr); /* 0.0.0.0 or :: */
int sys_addr_is_link_local(const struct sockaddr_storage *addr);

/* How far an address reaches, v4 and v4 mapped into v6 alike. NONE: no one host has it: a wildcard,
 * multicast, broadcast, another family. */
enum sys_scope { SYS_SCOPE_NONE, SYS_SCOPE_LOOPBACK, SYS_SCOPE_LINK, SYS_SCOPE_WIDE };
enum sys_scope sys_addr_scope(const struct sockaddr_storage *addr);
/* An address that the other end of a link names for itself may be dialled: it reaches beyond the
 * link's own segment, or as far as the link itself, or the other end is on this host. */
int sys_addr_may_be_of(const struct sockaddr_storage *addr, const struct sockaddr_storage *link,
		       int same_host);

/* Same family, address and v6 scope; ports do not count. */
int sys_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Whether the first prefix bits agree (same family). */
int sys_addr_same_subnet(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
			 unsigned prefix);

/* A number per place a stranger comes from: a v4 address, a v6 /64, all of loopback as one. */
uint64_t sys_addr_source(const struct sockaddr_storage *addr);

#endif
