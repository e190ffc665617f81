/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of TCP sockets, and their options. */
#include "sys/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/addr.h"
#include "sys/fd.h"

tcpx_status sys_errno_status(int err)
{
	switch (err) {
	case 0:
		return TCPX_OK;
	case ECONNREFUSED:
		return TCPX_ERR_REFUSED;
	case ECONNRESET:
	case EPIPE:
	case ECONNABORTED:
	case ENOTCONN:
		return TCPX_ERR_PEER_RESET;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
	case ENETRESET:
	case ENONET:
	case EACCES: /* connect() returns it for a firewall's refusal, or a broadcast address */
	case EPERM:
		return TCPX_ERR_UNREACHABLE;
	case ETIMEDOUT:
		return TCPX_ERR_PEER_SILENT;
	case EMFILE:
	case ENFILE:
		return TCPX_ERR_NO_DESCRIPTORS;
	case ENOMEM:
	case ENOBUFS:
		return TCPX_ERR_NO_MEMORY;
	case EADDRINUSE:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
	case ENODEV:
	case ENXIO:
		return TCPX_ERR_ADDRESS;
	default:
		return TCPX_ERR_SYSTEM;
	}
}

tcpx_status sys_sock_open(int family, int *out_fd)
{
	int fd = SYS_FD_OPEN(
		socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));

	if (fd < 0)
		return error_set(sys_errno_status(errno), errno, "cannot open a TCP socket");
	*out_fd = fd;
	return TCPX_OK;
}

static tcpx_status bind_failed(const struct sockaddr_storage *addr, int err)
{
	char text[SYS_ADDR_TEXT];
	tcpx_status status = sys_errno_status(err);

	sys_addr_text(addr, text);
	if (err == EACCES || err == EPERM)
		status = TCPX_ERR_ADDRESS;
	switch (err) {
	case EADDRINUSE:
		error_set(status, err, "%s is taken by another socket", text);
		return error_next("choose another port, or end the process that has it (ss -ltnp)");
	case EADDRNOTAVAIL:
		error_set(status, err, "%s is not an address of this machine", text);
		return error_next("name an address that 'ip address' lists");
	case EACCES:
	case EPERM:
		error_set(status, err, "not allowed to use %s", text);
		return error_next("choose a port above 1023");
	default:
		return error_set(status, err, "cannot use %s", text);
	}
}

tcpx_status sys_sock_bind(int fd, const struct sockaddr_storage *local)
{
	int one = 1;

	if (!sys_addr_port(local))
		(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)local, sys_addr_len(local)))
		return bind_failed(local, errno);
	return TCPX_OK;
}

tcpx_status sys_sock_bind_device(int fd, const char *device)
{
	int err;

	if (!device || !*device ||
	    !setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device)))
		return TCPX_OK;
	err = errno;
	if (err == ENODEV) {
		error_set(TCPX_ERR_ADDRESS, err, "there is no interface %.15s to bind to", device);
		return error_next("name one that 'ip link' lists");
	}
	if (err == EPERM || err == EACCES) {
		error_set(TCPX_ERR_ADDRESS, err, "not allowed to bind to interface %.15s", device);
		return error_next("give the process CAP_NET_RAW, or bind to addresses only");
	}
	return error_set(sys_errno_status(err), err, "cannot bind to interface %.15s", device);
}

tcpx_status sys_sock_listen(const struct sockaddr_storage *addr, const char *device, uint16_t *port,
			    int backlog, int *out_fd)
{
	struct sockaddr_storage local = *addr;
	int fd = -1, one = 1;
	tcpx_status status = sys_sock_open(addr->ss_family, &fd);

	if (status != TCPX_OK)
		return status;
	sys_addr_set_port(&local, *port);
	(void)sys_sock_reuse(fd);
	if (addr->ss_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	status = sys_sock_bind_device(fd, device);
	if (status == TCPX_OK &&
	    (bind(fd, (struct sockaddr *)&local, sys_addr_len(&local)) || listen(fd, backlog)))
		status = bind_failed(&local, errno);
	if (status == TCPX_OK)
		status = sys_sock_local(fd, &local);
	if (status != TCPX_OK) {
		sys_fd_close(fd);
		return status;
	}
	*port = sys_addr_port(&local);
	*out_fd = fd;
	return TCPX_OK;
}

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? errno : 0;
}

int sys_sock_nodelay(int fd)
{
	return set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

int sys_sock_segment(int fd, unsigned bytes)
{
	return set_int(fd, IPPROTO_TCP, TCP_MAXSEG, (int)bytes);
}

int sys_sock_reuse(int fd)
{
	return set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
}

int sys_sock_keepalive(int fd, int idle_s, int interval_s, int count)
{
	int err = set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);

	err = err ? err : set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
	err = err ? err : set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
	return err ? err : set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
}

int sys_sock_user_timeout(int fd, unsigned ms)
{
	return set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ms);
}

int sys_sock_defer_accept(int fd, int seconds)
{
	return set_int(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, seconds);
}

int sys_sock_reset_on_close(int fd)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	return setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) ? errno : 0;
}

int sys_sock_congestion_set(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) ? errno
											  : 0;
}

int sys_sock_congestion_get(int fd, char *buf, size_t cap)
{
	char name[16] = "";
	socklen_t len = sizeof(name) - 1;

	buf[0] = '\0';
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len))
		return errno;
	name[sizeof(name) - 1] = '\0';
	if (strlen(name) >= cap)
		return ERANGE;
	memcpy(buf, name, strlen(name) + 1);
	return 0;
}

int sys_sock_congestion_check(const char *name)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? errno : sys_sock_congestion_set(fd, name);

	if (fd >= 0)
		sys_fd_close(fd);
	return err;
}

void sys_sock_congestion_fit(int fd, const char *wanted)
{
	struct sockaddr_storage here, there;
	char name[16];

	if (*wanted && !sys_sock_congestion_set(fd, wanted))
		return;
	if (sys_sock_congestion_get(fd, name, sizeof(name)) || strncmp(name, "bbr", 3) ||
	    sys_sock_local(fd, &here) != TCPX_OK || sys_sock_remote(fd, &there) != TCPX_OK ||
	    !sys_addr_same_host(&here, &there))
		return;
	/* bbr paces packets. Between two sockets of one host, pacing halves the rate and needs a
	 * timer for each burst. */
	if (sys_sock_congestion_set(fd, "cubic"))
		sys_sock_congestion_set(fd, "reno"); /* every process may choose reno */
}

int sys_sock_error(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? errno : err;
}

int sys_sock_source(const struct sockaddr_storage *remote, const char *device,
		    struct sockaddr_storage *out_local)
{
	struct sockaddr_storage local = {0};
	socklen_t len = sizeof(local);
	int fd = socket(remote->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), failed;

	if (fd < 0)
		return -1;
	failed = device && *device &&
		 setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device));
	failed = failed || connect(fd, (const struct sockaddr *)remote, sys_addr_len(remote)) ||
		 getsockname(fd, (struct sockaddr *)&local, &len);
	sys_fd_close(fd);
	if (failed)
		return -1;
	sys_addr_set_port(&local, 0);
	*out_local = local;
	return 0;
}

tcpx_status sys_sock_local(int fd, struct sockaddr_storage *out_addr)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return error_set(sys_errno_status(errno), errno, "a socket has no local address");
	*out_addr = addr;
	return TCPX_OK;
}

tcpx_status sys_sock_remote(int fd, struct sockaddr_storage *out_addr)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);

	if (getpeername(fd, (struct sockaddr *)&addr, &len))
		return error_set(sys_errno_status(errno), errno, "a socket has no remote address");
	*out_addr = addr;
	return TCPX_OK;
}
