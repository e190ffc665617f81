/* SPDX-License-Identifier: Apache-2.0 */
/* The rank of this process by the environment variables of launchers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch.h"

/* In order of precedence: the inner launcher counts. If one launcher starts another, the
 * variables of both are set, so mpirun and torchrun come before those that may start them. */
static const struct launcher {
	const char *name, *text;
	const char *sign; /* if set, this launcher started the process */
	const char *rank, *size, *size_too;
	const char *local_rank, *local_size, *nodes;
	const char *job, *job_part; /* NULL: runs cannot be told apart */
} launchers[] = {
	{"tcpx", "your environment", "TCPX_RANK", "TCPX_RANK", "TCPX_SIZE", NULL, "TCPX_LOCAL_RANK",
	 "TCPX_LOCAL_SIZE", NULL, "TCPX_JOB", NULL},
	{"openmpi", "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK",
	 "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	 NULL, "PMIX_NAMESPACE", NULL},
	{"mpich", "MPICH", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALRANKID",
	 "MPI_LOCALNRANKS", NULL, NULL, NULL},
	{"torchrun", "torchrun", "WORLD_SIZE", "RANK", "WORLD_SIZE", NULL, "LOCAL_RANK",
	 "LOCAL_WORLD_SIZE", NULL, "TORCHELASTIC_RUN_ID", "MASTER_PORT"},
	/* A batch script is not a step: a process in it that srun did not start is not a rank. */
	{"slurm", "Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
	 "SLURM_LOCALID", NULL, "SLURM_STEP_NUM_NODES", "SLURM_JOB_ID", "SLURM_STEP_ID"},
	{"kubernetes", "Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", "TCPX_SIZE",
	 NULL, "TCPX_LOCAL_RANK", "TCPX_LOCAL_SIZE", NULL, "TCPX_JOB", NULL},
	{"pmi", "PMI", "PMI_RANK", "PMI_RANK", "PMI_SIZE", NULL, "TCPX_LOCAL_RANK",
	 "TCPX_LOCAL_SIZE", NULL, NULL, NULL},
};
#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

/* "": unset. */
static const char *value(const char *name)
{
	const char *text = name ? getenv(name) : NULL;

	return text ? text : "";
}

tcpx_status launch_number(const char *name, uint32_t *out)
{
	const char *text = value(name);
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (*end || *text < '0' || *text > '9' || n > 1u << 20)
		return error_set(TCPX_ERR_INVALID, 0, "%s=%.40s is not a number of ranks", name,
				 text);
	*out = (uint32_t)n;
	return TCPX_OK;
}

static tcpx_status launch_env_number(const struct launcher *l, const char *name, uint32_t *out)
{
	if (!*value(name)) {
		(void)error_set(TCPX_ERR_INVALID, 0, "%s is set, but %s is not", l->sign, name);
		return error_next("set it, or name another --launcher");
	}
	return launch_number(name, out);
}

static tcpx_status look_local(const struct launcher *l, struct launch *out)
{
	uint32_t here = 0, nodes = 0;
	tcpx_status status = TCPX_OK;

	if (*value(l->local_rank)) {
		status = launch_env_number(l, l->local_rank, &out->local_rank);
		out->has_local = true;
	}
	if (status == TCPX_OK && *value(l->local_size))
		status = launch_env_number(l, l->local_size, &here);
	if (status == TCPX_OK && *value(l->nodes))
		status = launch_env_number(l, l->nodes, &nodes);
	if (status != TCPX_OK)
		return status;
	if (here && (here > out->size || out->local_rank >= here))
		return error_set(TCPX_ERR_INVALID, 0, "%s=%u contradicts local rank %u of %u ranks",
				 l->local_size, here, out->local_rank, out->size);
	out->one_host = here == out->size || nodes == 1;
	out->alone_here = here == 1 || (nodes && nodes == out->size);
	out->many_hosts = (here && here < out->size) || nodes > 1;
	return TCPX_OK;
}

static tcpx_status launch_env_look(const struct launcher *l, struct launch *out)
{
	const char *size = *value(l->size) || !l->size_too ? l->size : l->size_too;
	tcpx_status status = launch_env_number(l, l->rank, &out->rank);

	if (status == TCPX_OK)
		status = launch_env_number(l, size, &out->size);
	if (status != TCPX_OK)
		return status;
	if (out->rank >= out->size)
		return error_set(TCPX_ERR_INVALID, 0, "%s=%u is not a rank below %s=%u", l->rank,
				 out->rank, size, out->size);
	out->size_by = size;
	out->by = l->text;
	out->name = l->name;
	if (*value(l->job) || *value(l->job_part))
		snprintf(out->job, sizeof(out->job), "%.60s%s%.12s", value(l->job),
			 l->job_part ? "." : "", value(l->job_part));
	for (char *at = out->job; *at; at++) /* it becomes part of a file name */
		if (*at <= ' ' || *at > '~' || *at == '/')
			*at = '_';
	return look_local(l, out);
}

static tcpx_status no_launcher(const char *name)
{
	(void)error_set(TCPX_ERR_NOT_FOUND, 0, "there is no launcher '%s'", name);
	return error_next("one of " LAUNCH_NAMES);
}

tcpx_status launch_find(const char *name, struct launch *out)
{
	bool any = !strcmp(name, "auto"), known = any;

	*out = (struct launch){.by = NULL};
	if (!strcmp(name, "none"))
		return TCPX_OK;
	for (size_t i = 0; i < LAUNCHERS; i++) {
		const struct launcher *l = &launchers[i];

		if (!any && strcmp(name, l->name) != 0)
			continue;
		known = true;
		if (*value(l->sign))
			return launch_env_look(l, out);
		if (!any) {
			(void)error_set(TCPX_ERR_NOT_FOUND, 0,
					"%s has not started this process: %s is not set", l->text,
					l->sign);
			return error_next("start it by the launcher, or leave --launcher out");
		}
	}
	if ((any && launch_pmix_there()) || !strcmp(name, "pmix"))
		return launch_pmix_find(out);
	if (!known)
		return no_launcher(name);
	if (*value("TCPX_SIZE") || *value("TCPX_RENDEZVOUS")) {
		(void)error_set(TCPX_ERR_INVALID, 0, "%s is set, but not the rank of this process",
				*value("TCPX_SIZE") ? "TCPX_SIZE" : "TCPX_RENDEZVOUS");
		return error_next("set TCPX_RANK and TCPX_SIZE, or use a launcher");
	}
	return TCPX_OK;
}
