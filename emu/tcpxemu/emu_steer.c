/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow rules. RxDM puts a rule on the NIC that owns the GPU, whatever NIC the flow comes in on, and
 * answers "Ok." all the same: a flow whose NIC is another one is not steered, and nobody says so.
 */
#include "emu.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RULE_MAX 200

struct text {
	uint8_t byte[RULE_MAX];
	size_t len;
};

static void put_byte(struct text *out, unsigned value)
{
	if (out->len < RULE_MAX)
		out->byte[out->len++] = (uint8_t)value;
}

static void put_number(struct text *out, unsigned field, unsigned value)
{
	put_byte(out, field << 3);
	for (; value > 0x7f; value >>= 7)
		put_byte(out, (value & 0x7f) | 0x80);
	put_byte(out, value);
}

static void put_bytes(struct text *out, unsigned field, const void *bytes, size_t len)
{
	put_byte(out, field << 3 | 2);
	put_byte(out, (unsigned)len); /* all of ours are shorter than 128 */
	for (size_t i = 0; i < len; i++)
		put_byte(out, ((const uint8_t *)bytes)[i]);
}

static void put_address(struct text *out, unsigned field, const struct sockaddr_in *addr)
{
	char ip[INET_ADDRSTRLEN] = "";
	struct text inner = {.len = 0};

	inet_ntop(AF_INET, &addr->sin_addr, ip, sizeof(ip));
	put_bytes(&inner, 1, ip, strlen(ip));
	put_number(&inner, 2, ntohs(addr->sin_port));
	put_bytes(out, field, inner.byte, inner.len);
}

/* A request of its own connection; 1: "Ok."; 0: any other answer or none. */
static int ask(const char *name, const struct text *request)
{
	static const uint8_t ok[] = {0, 5, 0x0a, 3, 'O', 'k', '.'};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	uint8_t head[2] = {(uint8_t)(request->len >> 8), (uint8_t)request->len};
	uint8_t answer[sizeof(ok)] = {0};
	int fd, path, good;

	path = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", emu_config.steer_dir, name);
	if (path >= (int)sizeof(addr.sun_path))
		return 0;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	good = fd >= 0 &&
	       !connect(fd, (struct sockaddr *)&addr,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)path)) &&
	       !emu_sock_all(fd, head, sizeof(head), true, NULL) &&
	       !emu_sock_all(fd, (void *)(uintptr_t)request->byte, request->len, true, NULL) &&
	       !emu_sock_all(fd, answer, sizeof(answer), false, NULL) &&
	       !memcmp(answer, ok, sizeof(ok));
	if (fd >= 0)
		close(fd);
	return good;
}

static int rule(const char *name, int fd, int gpu)
{
	struct sockaddr_in here, there;
	socklen_t length = sizeof(here);
	struct text tuple = {.len = 0}, request = {.len = 0}, all = {.len = 0};

	if (gpu < 0 || getsockname(fd, (struct sockaddr *)&here, &length))
		return 0;
	length = sizeof(there);
	if (getpeername(fd, (struct sockaddr *)&there, &length))
		return 0;
	put_number(&tuple, 1, 1); /* TCP over IPv4 */
	put_address(&tuple, 2, &there);
	put_address(&tuple, 3, &here);
	put_bytes(&request, 1, tuple.byte, tuple.len);
	put_bytes(&request, 3, emu_config.gpu[gpu].pci, strlen(emu_config.gpu[gpu].pci));
	put_bytes(&all, 2, request.byte, request.len);
	return ask(name, &all);
}

int emu_steer_socket(int fd, int dev, int gpu, long serial)
{
	if (!emu_flavour.device)
		return 0;
	if (emu_config.steer == EMU_STEER_OFF)
		return 1;
	if (emu_config.steer == EMU_STEER_RXDM && !rule("rx_rule_manager", fd, gpu)) {
		EMU_WARN("TCPXEMU: no flow rule from %s", emu_config.steer_dir);
		return -1;
	}
	if (emu_fault(EMU_FAULT_WRONG_NIC, EMU_SIDE_RECV, serial))
		return 0;
	return emu_nic_of_gpu(gpu) == dev;
}

void emu_unsteer_socket(int fd, int gpu)
{
	if (emu_flavour.device && emu_config.steer == EMU_STEER_RXDM &&
	    !rule("rx_rule_uninstall", fd, gpu))
		EMU_INFO("TCPXEMU: a flow rule was not removed");
}
