/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command with a tracer object between it and its plugin. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli_output.h"
#include "trace_view.h"

#define VERSION_MIN 6
#define VERSION_MAX 12
#define OBJECT "libnccl-net-tcpxtrace-v%u.so"

extern char **environ;

/* Bit v: the file has the text "ncclNetPlugin_v<v>". A plugin exports that symbol, a host asks for
 * it. Nothing is loaded for that: a plugin may start threads. -1: the file cannot be read. */
static int versions_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), found = 0;
	struct stat st;
	void *map = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size)
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return -1;
	for (unsigned v = VERSION_MIN; v <= VERSION_MAX; v++) {
		char text[32];
		int len =
			snprintf(text, sizeof(text), "ncclNetPlugin_v%u", v) + 1; /* with its NUL */

		if (memmem(map, (size_t)st.st_size, text, (size_t)len))
			found |= 1 << v;
	}
	munmap(map, (size_t)st.st_size);
	return found;
}

/* A file of a list of folders. Returns buf, or NULL. */
static const char *find_in(const char *folders, const char *name, char *buf, size_t cap)
{
	while (folders && *folders) {
		size_t len = strcspn(folders, ":");

		snprintf(buf, cap, "%.*s/%s", (int)len, folders, name);
		if (len && !access(buf, R_OK))
			return buf;
		folders += len + (folders[len] == ':');
	}
	return NULL;
}

static const char *find_library(const char *name, char *buf, size_t cap)
{
	const char *found = find_in(getenv("LD_LIBRARY_PATH"), name, buf, cap);

	if (found)
		return found;
	return find_in("/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/usr/local/lib:/usr/lib64:"
		       "/usr/lib:/lib:/usr/local/nvidia/lib64:/usr/local/cuda/lib64",
		       name, buf, cap);
}

/* The real plugin: as it is given, or as NCCL looks for it. NULL: none is named. */
static const char *find_plugin(const char *given, char *buf, size_t cap)
{
	const char *word = given ? given : getenv("NCCL_NET_PLUGIN");
	char name[300];

	if (!word || !*word || !strcmp(word, "none"))
		return NULL;
	if (strchr(word, '/') || !access(word, R_OK))
		return word;
	if (strncmp(word, "lib", 3) != 0)
		snprintf(name, sizeof(name), "libnccl-net-%.200s.so", word);
	else
		snprintf(name, sizeof(name), "%.250s", word);
	return find_library(name, buf, cap);
}

/* NCCL_NET_PLUGIN names one. */
static int wants_plugin(void)
{
	const char *word = getenv("NCCL_NET_PLUGIN");

	return word && *word && strcmp(word, "none") != 0;
}

/* What the host accepts; 0: not known. */
static int host_versions(const char *host, const char *command)
{
	char path[PATH_MAX];
	const char *found;
	int versions;

	if (host)
		return versions_of(host);
	versions = strchr(command, '/') ? versions_of(command)
		   : (found = find_in(getenv("PATH"), command, path, sizeof(path)))
			   ? versions_of(found)
			   : 0;
	if (versions > 0)
		return versions;
	found = find_library("libnccl.so.2", path, sizeof(path));
	versions = found ? versions_of(found) : 0;
	return versions > 0 ? versions : 0;
}

static unsigned newest(int versions)
{
	unsigned v = VERSION_MAX;

	while (v >= VERSION_MIN && !(versions & (1 << v)))
		v--;
	return v >= VERSION_MIN ? v : 0;
}

/* The folder of the tracer objects: beside the tool in a build, else where they are installed. */
static const char *find_tracer(unsigned version, char *buf, size_t cap)
{
	static const char *const places[] = {"../plugins/tracer", "plugins/tracer",
					     "../lib/tcpx/trace"};
	char exe[PATH_MAX], name[64], folders[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	snprintf(name, sizeof(name), OBJECT, version);
	if (len < 0)
		return NULL;
	exe[len] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(folders, sizeof(folders), "%s/%s", exe, places[i]);
		if (find_in(folders, name, buf, cap))
			return buf;
	}
	return find_in(TOOL_TRACE_LIBDIR, name, buf, cap);
}

static void prepend(const char *variable, const char *folder)
{
	const char *before = getenv(variable);
	char *value = NULL;

	if (asprintf(&value, "%s%s%s", folder, before && *before ? ":" : "", before ? before : "") <
	    0)
		return;
	setenv(variable, value, 1);
	free(value);
}

/* This library records by itself what it calls; a plugin that was named for both has the tracer. */
static void set_own(const char *real, const char *tracer)
{
	const char *own = getenv("TCPX_PLUGIN");
	char path[PATH_MAX];

	if (own && *own && realpath(own, path) && !strcmp(path, real))
		setenv("TCPX_PLUGIN", tracer, 1);
}

/* Sets the environment of the command. CLI_OK, or an exit code after a line on stderr. */
static int set_tracer(const struct trace_run *run, const char *plugin, const char *command)
{
	char tracer[PATH_MAX], real[PATH_MAX], word[32], *slash;
	int exported, accepted;
	unsigned version = (unsigned)run->table;

	if (!realpath(plugin, real)) {
		cli_error("plugin %s: %s", plugin, strerror(errno));
		return CLI_FAILED;
	}
	exported = versions_of(real);
	if (exported <= 0) {
		cli_error("plugin %s exports none of ncclNetPlugin_v%d ... _v%d", real, VERSION_MIN,
			  VERSION_MAX);
		return CLI_FAILED;
	}
	accepted = host_versions(run->host, command);
	if (accepted < 0) {
		cli_error("--host %s: %s", run->host, strerror(errno));
		return CLI_FAILED;
	}
	if (!version)
		version = newest(accepted ? exported & accepted : exported);
	if (!version || !(exported & (1 << version))) {
		cli_error(version ? "%s has no table v%u; its newest is v%u"
				  : "%s and the host have no version in common (asked for v%u, "
				    "newest v%u)",
			  real, version, newest(exported));
		return CLI_FAILED;
	}
	if (!find_tracer(version, tracer, sizeof(tracer))) {
		cli_error("no tracer object " OBJECT " beside the tool or in %s; install it",
			  version, TOOL_TRACE_LIBDIR);
		return CLI_FAILED;
	}
	if (!run->quiet)
		cli_error(
			"plugin %s, table v%u%s", real, version,
			accepted || run->table
				? ""
				: " (its newest; what the host accepts is not known: --host FILE)");
	set_own(real, tracer);
	slash = strrchr(tracer, '/');
	*slash = '\0';
	prepend("LD_LIBRARY_PATH", tracer); /* NCCL before 2.26 takes no path */
	snprintf(word, sizeof(word), "tcpxtrace-v%u", version);
	setenv("NCCL_NET_PLUGIN", word, 1);
	setenv("TCPX_TRACE_PLUGIN", real, 1);
	return CLI_OK;
}

static int set_folder(const char *given, char *folder, size_t cap)
{
	char real[PATH_MAX], *pattern = NULL;

	if (given) {
		snprintf(folder, cap, "%s", given);
		if (mkdir(folder, 0777) && errno != EEXIST) {
			cli_error("--output %s: %s", folder, strerror(errno));
			return CLI_FAILED;
		}
	} else {
		for (unsigned i = 1;; i++) {
			snprintf(folder, cap, "tcpx-trace-%u", i);
			if (!mkdir(folder, 0777))
				break;
			if (errno == EEXIST)
				continue;
			cli_error("%s: %s; name a folder with --output", folder, strerror(errno));
			return CLI_FAILED;
		}
	}
	if (!realpath(folder, real) || asprintf(&pattern, "%s/%%p.tct", real) < 0) {
		cli_error("--output %s: %s", folder, strerror(errno));
		return CLI_FAILED;
	}
	setenv("TCPX_TRACE", pattern, 1);
	free(pattern);
	return CLI_OK;
}

static int run_command(char **command)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
	posix_spawnattr_t attr;
	sigset_t defaults;
	int err, status = 0;
	pid_t pid;

	posix_spawnattr_init(&attr);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGTERM);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	sigaction(SIGINT, &ignore, &interrupt); /* the command's, of the same terminal */
	sigaction(SIGQUIT, &ignore, &quit);
	err = posix_spawnp(&pid, command[0], NULL, &attr, command, environ);
	posix_spawnattr_destroy(&attr);
	while (!err && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGQUIT, &quit, NULL);
	if (err) {
		cli_error("%s: %s", command[0], strerror(err));
		return err == ENOENT ? 127 : 126;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Says what was recorded. */
static void say_files(const char *folder)
{
	glob_t found = {0};
	unsigned shown = 0;
	char *pattern;

	if (asprintf(&pattern, "%s/*.tct*", folder) < 0)
		return;
	if (glob(pattern, 0, NULL, &found))
		found.gl_pathc = 0;
	free(pattern);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct trace_file file;

		if (trace_file_open(found.gl_pathv[i], &file) == CLI_OK) {
			cli_error("%s: %llu records%s", found.gl_pathv[i],
				  (unsigned long long)file.nrecords,
				  file.missing ? ", SOME ARE MISSING"
					       : (file.ended ? "" : ", no end (killed?)"));
			shown++;
		}
		trace_file_close(&file);
	}
	if (found.gl_pathc)
		globfree(&found);
	if (!shown)
		cli_error("nothing was recorded in %s: no plugin was loaded, or the program names "
			  "it otherwise than by NCCL_NET_PLUGIN, or it does not accept this table "
			  "(--host FILE, --table N)",
			  folder);
}

int trace_run(const struct trace_run *run, char **command)
{
	char buf[PATH_MAX], folder[PATH_MAX];
	const char *plugin = find_plugin(run->plugin, buf, sizeof(buf));
	int rc;

	if (!plugin && (run->plugin || wants_plugin())) {
		cli_error("plugin %s: not found; give its path with --plugin",
			  run->plugin ? run->plugin : getenv("NCCL_NET_PLUGIN"));
		return CLI_FAILED;
	}
	rc = set_folder(run->folder, folder, sizeof(folder));
	if (rc == CLI_OK && plugin)
		rc = set_tracer(run, plugin, command[0]);
	if (rc != CLI_OK)
		return rc;
	rc = run_command(command);
	if (!run->quiet)
		say_files(folder);
	return rc;
}
