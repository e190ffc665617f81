/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses: text, comparison, loopback. No look-ups of names. */
#ifndef SYS_ADDR_H
#define SYS_ADDR_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tcpx/types.h>

#define SYS_ADDR_TEXT 72 /* "[v6%interface]:port" and the NUL */

/* Parses "10.0.0.1", "fe80::1%eth0" or "::1" (no brackets, no port) and adds the given port.
 * ERR_INVALID: not an address, or the text after % is no interface. Does not set the last error. */
tcpx_status sys_addr_parse(const char *text, uint16_t port, struct sockaddr_storage *out_addr);

#define SYS_HOST_MAX 256 /* a DNS name and the NUL */

/* Splits "host", "host:port", "[v6]:port" or "v6"; *out_port is unchanged if there is no port.
 * Returns NULL, or a text that says what is wrong, with the right spelling if that is known. The
 * text is valid until the next call of this thread. */
const char *sys_addr_split(const char *text, char host[SYS_HOST_MAX], uint16_t *out_port);

/* Writes "10.0.0.1:80" or "[fe80::1%eth0]:80"; sys_addr_host_text leaves out the port: "10.0.0.1",
 * "fe80::1%eth0". Returns buf. */
const char *sys_addr_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT]);
const char *sys_addr_host_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT]);

/* sys_addr_len: the length for system calls. sys_addr_port: the port in host order; 0 also if the
 * address is neither v4 nor v6. */
socklen_t sys_addr_len(const struct sockaddr_storage *addr);
uint16_t sys_addr_port(const struct sockaddr_storage *addr);
void sys_addr_set_port(struct sockaddr_storage *addr, uint16_t port);

/* Whether the address is in 127/8, ::1, or in 127/8 mapped into v6. */
int sys_addr_is_loopback(const struct sockaddr_storage *addr);
int sys_addr_is_any(const struct sockaddr_storage *addr); /* 0.0.0.0 or :: */
int sys_addr_is_link_local(const struct sockaddr_storage *addr);

/* The scope of an address; v4 mapped into v6 counts as v4. NONE: not the address of one host (a
 * wildcard, a multicast or broadcast address), or of a family other than v4 and v6. */
enum sys_scope { SYS_SCOPE_NONE, SYS_SCOPE_LOOPBACK, SYS_SCOPE_LINK, SYS_SCOPE_WIDE };
enum sys_scope sys_addr_scope(const struct sockaddr_storage *addr);
/* Whether an address that the other end of a link announces as its own may be dialled: its scope is
 * wide, or equal to that of `link`, the address that the link itself uses, or it is loopback and
 * the other end is on this host. */
int sys_addr_may_be_of(const struct sockaddr_storage *addr, const struct sockaddr_storage *link,
		       int same_host);

/* Whether family, address and v6 scope are equal; ports are ignored. */
int sys_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Whether the families and the first `prefix` bits are equal. */
int sys_addr_same_subnet(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
			 unsigned prefix);

/* A number that identifies a source of connections: a v4 address, a v6 /64, or all of loopback; 0
 * if the address is neither v4 nor v6. */
uint64_t sys_addr_source(const struct sockaddr_storage *addr);

#endif
