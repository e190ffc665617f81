/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets: creation, options, and the mapping of errno. */
#ifndef SYS_SOCK_H
#define SYS_SOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tcpx/types.h>

/* Returns the status for the errno of a socket call, or ERR_SYSTEM if no other status fits. */
tcpx_status sys_errno_status(int err);

/* Opens a non-blocking stream socket with SOCK_CLOEXEC. Returns ERR_NO_DESCRIPTORS, ERR_NO_MEMORY,
 * ERR_ADDRESS (the host lacks the family), or another status that sys_errno_status() returns. This
 * function and those below that return a status set the last error when they fail. */
tcpx_status sys_sock_open(int family, int *out_fd);

/* Binds to an address. With port 0, connect() chooses the port later, so that several connections
 * to different peers can have the same local port. */
tcpx_status sys_sock_bind(int fd, const struct sockaddr_storage *local);

/* Restricts the socket to the interface or VRF `device`. Does nothing if `device` is NULL or "".
 * Returns ERR_ADDRESS if there is no such interface, or if the process lacks the right; the error
 * says what to do. */
tcpx_status sys_sock_bind_device(int fd, const char *device);

/* Opens a socket with SO_REUSEADDR, binds it to `addr` and `device`, and listens. A v6 socket does
 * not accept v4 connections. If *port is 0, the kernel chooses the port; *port becomes the port in
 * use. Returns ERR_ADDRESS if the port is taken or privileged, or the address is not local. */
tcpx_status sys_sock_listen(const struct sockaddr_storage *addr, const char *device, uint16_t *port,
			    int backlog, int *out_fd);

/* The functions down to sys_sock_error set or read options of a socket. Those that return an int
 * return 0 or an errno, which callers may ignore if the option only improves a connection. */
int sys_sock_nodelay(int fd);
/* Limits the payload of a packet in both directions. Must be called before connect or listen. */
int sys_sock_segment(int fd, unsigned bytes);
/* Sets SO_REUSEADDR, so that several sockets may use one local port with different peers. */
int sys_sock_reuse(int fd);
int sys_sock_keepalive(int fd, int idle_s, int interval_s, int count);
/* Ends the connection if sent data is not acknowledged within `ms`. */
int sys_sock_user_timeout(int fd, unsigned ms);
/* Makes accept() return a connection only after its first data, or after about `seconds`. */
int sys_sock_defer_accept(int fd, int seconds);
int sys_sock_reset_on_close(int fd); /* close() sends a TCP reset */
int sys_sock_congestion_set(int fd, const char *name);
int sys_sock_congestion_get(int fd, char *buf, size_t cap); /* buf is "" on failure */
/* Returns 0 if a socket of this process may use that congestion control, else an errno: ENOENT if
 * the kernel has none of that name, EPERM if only privileged processes may use it. */
int sys_sock_congestion_check(const char *name);
/* Sets the congestion control called `wanted`. If `wanted` is "" or the kernel refuses it, and both
 * ends of the connection have the same address, replaces bbr by a congestion control without
 * pacing. */
void sys_sock_congestion_fit(int fd, const char *wanted);
int sys_sock_error(int fd); /* returns SO_ERROR and clears it */

/* Finds the source address that the kernel's routes choose for packets to `remote`. The packets
 * leave through `device`, unless that is NULL or "". Returns 0, or -1 if there is none, for example
 * without a route. Sends nothing, and does not set the last error. */
int sys_sock_source(const struct sockaddr_storage *remote, const char *device,
		    struct sockaddr_storage *out_local);

tcpx_status sys_sock_local(int fd, struct sockaddr_storage *out_addr);
tcpx_status sys_sock_remote(int fd, struct sockaddr_storage *out_addr);

#endif
