/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses: conversion from and to text, comparison, scopes. No function looks up a host
 * name. */
#ifndef SYS_ADDR_H
#define SYS_ADDR_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tcpx/types.h>

#define SYS_ADDR_TEXT 72 /* room for "[v6%interface]:port" and the NUL */

/* Parses an address without brackets and port, such as "10.0.0.1", "fe80::1%eth0" or "::1", and
 * adds the given port. Returns ERR_INVALID if the text is not an address or no interface has the
 * name after %; a number after % need not be that of an interface. Does not set the last error. */
tcpx_status sys_addr_parse(const char *text, uint16_t port, struct sockaddr_storage *out_addr);

#define SYS_HOST_MAX 256 /* room for a DNS name and the NUL */

/* Splits "host", "host:port", "[v6]:port" or "v6". *out_port is unchanged if the text has no port.
 * Returns NULL on success. Otherwise returns a text that says what is wrong and, if known, the
 * right spelling. This text is valid until the next call on the same thread. */
const char *sys_addr_split(const char *text, char host[SYS_HOST_MAX], uint16_t *out_port);

/* sys_addr_text writes "10.0.0.1:80" or "[fe80::1%eth0]:80". sys_addr_host_text leaves out port and
 * brackets: "10.0.0.1", "fe80::1%eth0". Both return buf. */
const char *sys_addr_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT]);
const char *sys_addr_host_text(const struct sockaddr_storage *addr, char buf[SYS_ADDR_TEXT]);

/* sys_addr_len returns the length that system calls expect. sys_addr_port returns the port in host
 * order, or 0 if the address is neither v4 nor v6. */
socklen_t sys_addr_len(const struct sockaddr_storage *addr);
uint16_t sys_addr_port(const struct sockaddr_storage *addr);
void sys_addr_set_port(struct sockaddr_storage *addr, uint16_t port);

/* Whether the address is ::1 or in 127/8, directly or mapped into v6. */
int sys_addr_is_loopback(const struct sockaddr_storage *addr);
int sys_addr_is_any(const struct sockaddr_storage *addr); /* 0.0.0.0 or :: */
int sys_addr_is_link_local(const struct sockaddr_storage *addr);

/* The scope of an address; v4 mapped into v6 counts as v4. NONE means an address in 0/8 or 224/3, a
 * v6 wildcard or multicast address, or a family other than v4 and v6. */
enum sys_scope { SYS_SCOPE_NONE, SYS_SCOPE_LOOPBACK, SYS_SCOPE_LINK, SYS_SCOPE_WIDE };
enum sys_scope sys_addr_scope(const struct sockaddr_storage *addr);
/* Whether a peer may be dialled at an address that it announces as its own. `link` is the address
 * that the link to the peer uses. An address of wide scope may be dialled, and one of the same
 * scope as `link`. If the peer is on this host, a loopback address may be dialled as well. */
int sys_addr_may_dial(const struct sockaddr_storage *addr, const struct sockaddr_storage *link,
		      int same_host);

/* Whether family, address and v6 scope id are equal. Ports are ignored. */
int sys_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Whether the families and the first `prefix` bits of the addresses are equal. */
int sys_addr_same_subnet(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
			 unsigned prefix);

/* Returns a number that identifies a source of connections: a v4 address, a v6 /64, or all of
 * loopback. Returns 0 if the address is neither v4 nor v6. */
uint64_t sys_addr_source(const struct sockaddr_storage *addr);

#endif
