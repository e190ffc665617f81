/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks meet. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "launch.h"
#include "perf_host.h"

/* A folder in which no other user can create files. */
static bool launch_meet_is_ours(const char *folder)
{
	struct stat st;

	return !lstat(folder, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static tcpx_status own_folder(char *out, size_t cap)
{
	const char *folder = getenv("XDG_RUNTIME_DIR");

	if (folder && *folder == '/' && launch_meet_is_ours(folder))
		return snprintf(out, cap, "%s", folder) < (int)cap
			       ? TCPX_OK
			       : error_set(TCPX_ERR_INVALID, 0, "XDG_RUNTIME_DIR is too long");
	snprintf(out, cap, "/tmp/tcpx-%u", (unsigned)geteuid());
	if ((mkdir(out, 0700) && errno != EEXIST) || !launch_meet_is_ours(out)) {
		error_set(TCPX_ERR_AUTH, 0,
			  "the ranks cannot meet in %.100s: not a folder of this user", out);
		return error_next("remove it, or set XDG_RUNTIME_DIR to a folder of your own");
	}
	return TCPX_OK;
}

/* Tells runs on one host apart: their ranks have a common parent process, if nothing else. */
static tcpx_status own_file(const struct launch *launch, struct launch_meet *out)
{
	char folder[sizeof(out->where)], job[sizeof(launch->job)];
	tcpx_status status = own_folder(folder, sizeof(folder));

	if (status != TCPX_OK)
		return status;
	snprintf(job, sizeof(job), "%ld", (long)getppid());
	out->via = LAUNCH_VIA_FILE;
	if (snprintf(out->where, sizeof(out->where), "%s/tcpx-%s-%s", folder, launch->name,
		     *launch->job ? launch->job : job) >= (int)sizeof(out->where))
		return error_set(TCPX_ERR_INVALID, 0, "XDG_RUNTIME_DIR is too long");
	return TCPX_OK;
}

static tcpx_status by_address(const char *text, uint32_t port, struct launch_meet *out)
{
	char host[PERF_HOST_MAX];
	unsigned named = 0;
	const char *why = perf_host_split(text, host, &named);

	if (why)
		return error_set(TCPX_ERR_INVALID, 0, "rendezvous '%.200s': %s", text, why);
	out->via = LAUNCH_VIA_ADDRESS;
	out->port = named ? named : port;
	snprintf(out->where, sizeof(out->where), "%s", host);
	return TCPX_OK;
}

tcpx_status launch_meet_by(const struct launch *launch, const char *text, uint32_t port,
			   struct launch_meet *out)
{
	const char *master = getenv("MASTER_ADDR");

	*out = (struct launch_meet){.first = !launch->rank};
	snprintf(out->job, sizeof(out->job), "%s", launch->job);
	if (strchr(text, '/')) {
		out->via = LAUNCH_VIA_FILE;
		if (strlen(text) >= sizeof(out->where))
			return error_set(TCPX_ERR_INVALID, 0, "the rendezvous path is too long");
		snprintf(out->where, sizeof(out->where), "%s", text);
		return TCPX_OK;
	}
	if (*text)
		return by_address(text, port, out);
	if (launch_pmix_there()) {
		out->via = LAUNCH_VIA_PMIX;
		return TCPX_OK;
	}
	if (launch->one_host)
		return own_file(launch, out);
	if (master && *master && !strcmp(launch->name, "torchrun"))
		return by_address(master, port, out); /* MASTER_PORT is used by torchrun itself */
	(void)error_set(TCPX_ERR_NOT_FOUND, 0, "%s started %u ranks, but no place to meet is known",
			launch->by, launch->size);
	return error_next("set TCPX_RENDEZVOUS to a path that all share, or HOST:PORT with "
			  "TCPX_KEY_FILE");
}

tcpx_status launch_meet_give(const struct launch_meet *meet, const void *info, size_t bytes)
{
	return meet->via == LAUNCH_VIA_PMIX ? launch_pmix_give(info, bytes)
					    : launch_file_give(meet->where, meet->job, info, bytes);
}

tcpx_status launch_meet_take(const struct launch_meet *meet, void *buf, size_t cap,
			     size_t *out_bytes)
{
	return meet->via == LAUNCH_VIA_PMIX
		       ? launch_pmix_take(buf, cap, out_bytes)
		       : launch_file_take(meet->where, meet->job, buf, cap, out_bytes);
}

void launch_meet_over(const struct launch_meet *meet)
{
	if (meet->first && meet->via == LAUNCH_VIA_FILE)
		(void)unlink(meet->where);
}
