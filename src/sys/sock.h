/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets: creation, options, and the mapping of errno. */
#ifndef SYS_SOCK_H
#define SYS_SOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tcpx/types.h>

/* The status for an errno of a socket call; ERR_SYSTEM if nothing better fits. */
tcpx_status sys_errno_status(int err);

/* Opens a non-blocking CLOEXEC stream socket. ERR_NO_DESCRIPTORS; ERR_NO_MEMORY; ERR_ADDRESS
 * (family not available); ERR_SYSTEM. The functions below set the last error as well. */
tcpx_status sys_sock_open(int family, int *out_fd);

/* Binds to an address. With port 0 connect() chooses the port, so that one local port can be used
 * for several connections. */
tcpx_status sys_sock_bind(int fd, const struct sockaddr_storage *local);

/* Restricts the socket to that interface (or VRF); NULL or "": does nothing. ERR_ADDRESS: there is
 * no such interface, or the process lacks the right; the error says what to do. */
tcpx_status sys_sock_bind_device(int fd, const char *device);

/* Opens a socket, binds it (SO_REUSEADDR, v6 sockets v6 only; to device as sys_sock_bind_device)
 * and listens. *port 0: any port, which is written back. ERR_ADDRESS: taken, not a local address,
 * or a privileged port. */
tcpx_status sys_sock_listen(const struct sockaddr_storage *addr, const char *device, uint16_t *port,
			    int backlog, int *out_fd);

/* The functions below set options of a socket; each returns 0 or an errno. Callers ignore it
 * where the option only improves a connection. */
int sys_sock_nodelay(int fd);
/* Before connect or listen: limits the payload of a packet in both directions. */
int sys_sock_segment(int fd, unsigned bytes);
/* SO_REUSEADDR: a local port may be used with several remote ends */
int sys_sock_reuse(int fd);
int sys_sock_keepalive(int fd, int idle_s, int interval_s, int count);
/* The connection ends if data is not acknowledged for that long. */
int sys_sock_user_timeout(int fd, unsigned ms);
/* accept() gets a connection only when its first data has arrived, or after that time. */
int sys_sock_defer_accept(int fd, int seconds);
int sys_sock_reset_on_close(int fd); /* close() sends a reset */
int sys_sock_congestion_set(int fd, const char *name);
int sys_sock_congestion_get(int fd, char *buf, size_t cap); /* "" on failure */
/* Sets the congestion control called `wanted`. If `wanted` is "" and both ends have the same
 * address, and so are on this host, replaces bbr by a control without pacing. */
void sys_sock_congestion_fit(int fd, const char *wanted);
int sys_sock_error(int fd); /* reads and clears SO_ERROR */

/* Returns in *out_local the source address that the kernel's routes choose for packets to
 * `remote`, through `device` unless that is NULL or "". Returns 0, or -1 if it cannot be found,
 * as without a route. Sends nothing; does not set the last error. */
int sys_sock_source(const struct sockaddr_storage *remote, const char *device,
		    struct sockaddr_storage *out_local);

tcpx_status sys_sock_local(int fd, struct sockaddr_storage *out_addr);
tcpx_status sys_sock_remote(int fd, struct sockaddr_storage *out_addr);

#endif
