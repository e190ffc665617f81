/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the environment. */
#include "cli_environ.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "cli_secret.h"

#define VARIABLES_MAX 4096

extern char **environ;

/* Prefixes of the variables that are shown; others may be private. */
static const char *const shown[] = {
	"NCCL_",     "TCPX_",	    "UCCL_",
	"CUDA_",     "NVIDIA_",	    "LD_",
	"OMPI_",     "PMIX_",	    "PMI_",
	"SLURM_",    "OMP_",	    "UCX_",
	"FI_",	     "GLOO_",	    "MASTER_",
	"RANK=",     "WORLD_SIZE=", "LOCAL_RANK=",
	"HOSTFILE=", "PATH=",	    "JOB_COMPLETION_INDEX=",
};

static int is_shown(const char *variable)
{
	for (unsigned i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (!strncmp(variable, shown[i], strlen(shown[i])))
			return 1;
	return 0;
}

static int cli_environ_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_variable(const char *variable, FILE *out)
{
	size_t name = strcspn(variable, "=");

	if (cli_is_secret(variable, name)) {
		fprintf(out, "%.*s=(hidden)\n", (int)name, variable);
		return;
	}
	for (const char *p = variable; *p; p++)
		fputc(*p == '\n' ? ' ' : *p, out);
	fputc('\n', out);
}

void cli_environ_write(FILE *out)
{
	const char *sorted[VARIABLES_MAX];
	unsigned count = 0;

	for (char **at = environ; *at && count < VARIABLES_MAX; at++)
		if (is_shown(*at) && strncmp(*at, "TCPX_RECIPE_FILE=", 17) != 0)
			sorted[count++] = *at;
	qsort(sorted, count, sizeof(sorted[0]), cli_environ_by_name);
	for (unsigned i = 0; i < count; i++)
		put_variable(sorted[i], out);
}

void cli_environ_record(void)
{
	const char *path = getenv(config_row(CONFIG_RECIPE_FILE)->name);
	char *text = NULL;
	size_t len = 0;
	FILE *out = path && *path ? open_memstream(&text, &len) : NULL;
	int fd = out ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (out)
		cli_environ_write(out);
	/* in one write, because the processes of a run write concurrently */
	if (out && !fclose(out) && fd >= 0 && write(fd, text, len) < 0)
		fd = -1;
	if (fd >= 0)
		close(fd);
	free(text);
}
