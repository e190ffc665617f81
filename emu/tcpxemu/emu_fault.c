/* SPDX-License-Identifier: Apache-2.0 */
/* TCPXEMU_FAULT: "name[:key=value]...,name...". What a fault does stands where it is asked for. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

static struct emu_fault faults[EMU_FAULTS];

static const char *const fault_names[EMU_FAULTS] = {
	[EMU_FAULT_CONNECT_DELAY] = "connect-delay",
	[EMU_FAULT_CONNECT_NEVER] = "connect-never",
	[EMU_FAULT_ACCEPT_RC] = "accept-rc",
	[EMU_FAULT_WRONG_NIC] = "wrong-nic",
	[EMU_FAULT_LATE] = "late",
	[EMU_FAULT_ONE_BYTE] = "one-byte",
	[EMU_FAULT_FRAGS] = "frags",
	[EMU_FAULT_POOL] = "pool",
	[EMU_FAULT_HELPER] = "helper-death",
	[EMU_FAULT_CTRL_EOF] = "ctrl-eof",
	[EMU_FAULT_DATA_EOF] = "data-eof",
	[EMU_FAULT_ENOBUFS] = "enobufs",
	[EMU_FAULT_DONE] = "done-delay",
	[EMU_FAULT_TEST_RC] = "test-rc",
	[EMU_FAULT_NULLS] = "nulls",
	[EMU_FAULT_REG_DELAY] = "reg-delay",
	[EMU_FAULT_NO_SEND] = "no-send",
	[EMU_FAULT_FLIP] = "flip",
};

static int read_value(struct emu_fault *fault, char *text)
{
	char *equals = strchr(text, '='), *end;
	unsigned long long value;

	if (!equals)
		return -1;
	*equals++ = 0;
	if (!strcmp(text, "side")) {
		fault->side = !strcmp(equals, "send") ? EMU_SIDE_SEND : EMU_SIDE_RECV;
		return strcmp(equals, "send") && strcmp(equals, "recv") ? -1 : 0;
	}
	value = strtoull(equals, &end, 0);
	if (end == equals || *end)
		return -1;
	if (!strcmp(text, "comm"))
		fault->comm = (long)value;
	else if (!strcmp(text, "nth") || !strcmp(text, "pages"))
		fault->nth = value;
	else if (!strcmp(text, "bytes"))
		fault->bytes = value;
	else if (!strcmp(text, "ms"))
		fault->ms = value;
	else if (!strcmp(text, "us"))
		fault->us = value;
	else if (!strcmp(text, "sock"))
		fault->sock = value;
	else
		return -1;
	return 0;
}

static int read_one(char *text)
{
	char *rest = NULL, *name = strtok_r(text, ":", &rest), *value;
	struct emu_fault fault = {.on = true, .comm = -1, .nth = 1, .sock = ~0ULL};
	int kind;

	for (kind = 0; name && kind < EMU_FAULTS && strcmp(name, fault_names[kind]); kind++)
		;
	if (!name || kind == EMU_FAULTS)
		return -1;
	while ((value = strtok_r(NULL, ":", &rest))) {
		if (read_value(&fault, value))
			return -1;
	}
	faults[kind] = fault;
	return 0;
}

int emu_fault_read(const char *text)
{
	char *copy = strdup(text ? text : ""), *rest = NULL;
	int rc = copy ? 0 : -1;

	memset(faults, 0, sizeof(faults));
	for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one && !rc;
	     one = strtok_r(NULL, ",", &rest))
		rc = read_one(one);
	if (rc)
		EMU_WARN("TCPXEMU: TCPXEMU_FAULT=%s is not understood", text ? text : "");
	free(copy);
	return rc;
}

const struct emu_fault *emu_fault(enum emu_fault_kind kind, int side, long comm)
{
	const struct emu_fault *fault = &faults[kind];

	if (!fault->on || (fault->side && side && fault->side != side) ||
	    (fault->comm >= 0 && comm >= 0 && fault->comm != comm))
		return NULL;
	return fault;
}
