/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx nixl-env: makes a folder with our plugin and those of an installed NIXL, and prints the
 * line to use it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli_output.h"
#include "commands.h"

#define OURS "libplugin_TCPX.so"
#define ALIAS "libplugin_UCX.so"
#define INSTALLED "../" TOOL_NIXL_LIBDIR

extern char **environ;

struct nixl_env_options {
	int alias, alone;
	const char *python, *package, *plugin;
};

#define AT(field) offsetof(struct nixl_env_options, field)

static const struct cli_option options[] = {
	{"alias", NULL, CLI_RULE_FLAG, AT(alias), NULL, 0,
	 "TCPX in place of UCX, for tools that know no other"},
	{"alone", NULL, CLI_RULE_FLAG, AT(alone), NULL, 0, "TCPX alone where there is no NIXL"},
	{"python", "FILE", CLI_RULE_TEXT, AT(python), "python3", 0, "whose NIXL it is for"},
	{"package", "NAME", CLI_RULE_TEXT, AT(package), NULL, 0,
	 "nixl_cu12 or nixl_cu13 (default: as 'import nixl')"},
	{"plugin", "FILE", CLI_RULE_TEXT, AT(plugin), NULL, 0,
	 "TCPX plugin (default: the installed or built one)"},
};

/* An installed NIXL; "" where there is none. */
struct nixl {
	char package[64], site[PATH_MAX];
	char importable[8]; /* "yes": this Python also has the package nixl, which users import */
};

/* Finds NIXL without importing it. Of several packages it takes the one for the CUDA of torch,
 * else the newest. */
static const char question[] =
	"import importlib.util, os, re, sys\n"
	"def folder(name):\n"
	"    found = importlib.util.find_spec(name)\n"
	"    return found and found.origin and os.path.dirname(os.path.realpath(found.origin))\n"
	"names = sys.argv[1:] or ['nixl_cu13', 'nixl_cu12']\n"
	"try:\n"
	"    text = open(os.path.join(folder('torch'), 'version.py')).read()\n"
	"    cuda = re.search(r'''^cuda\\b.*=\\s*['\"](\\d+)''', text, re.M)[1]\n"
	"    names.sort(key=lambda name: not name.endswith(cuda))\n"
	"except (OSError, TypeError):\n"
	"    pass\n"
	"for name in names:\n"
	"    if folder(name):\n"
	"        print(name)\n"
	"        print(os.path.dirname(folder(name)))\n"
	"        print('yes' if importlib.util.find_spec('nixl') else 'no')\n"
	"        break\n";

static void nixl_env_take_line(FILE *file, char *out, size_t cap)
{
	if (!fgets(out, (int)cap, file))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

static int ask_python(const char *python, const char *package, struct nixl *out)
{
	char *argv[] = {(char *)python, (char *)"-c", (char *)question, (char *)package, NULL};
	posix_spawn_file_actions_t actions;
	int fds[2], status = 0, rc;
	FILE *file;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return cli_error("%s", strerror(errno)), CLI_FAILED;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	rc = posix_spawnp(&pid, python, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	file = rc ? NULL : fdopen(fds[0], "r");
	if (!file) {
		close(fds[0]);
		cli_error("cannot run %s: %s; name one with --python", python,
			  strerror(rc ? rc : errno));
		return CLI_FAILED;
	}
	nixl_env_take_line(file, out->package, sizeof(out->package));
	nixl_env_take_line(file, out->site, sizeof(out->site));
	nixl_env_take_line(file, out->importable, sizeof(out->importable));
	fclose(file);
	if (waitpid(pid, &status, 0) != pid || status) {
		cli_error("%s does not say where its packages are", python);
		return CLI_FAILED;
	}
	if (package && !*out->package) {
		cli_error("%s has no package %s; 'pip install' it, or leave --package out", python,
			  package);
		return CLI_FAILED;
	}
	return CLI_OK;
}

/* Finds the plugin: as named, installed, or built. */
static int find_plugin(const char *named, char out[PATH_MAX])
{
	static const char *const places[] = {"../lib/tcpx/nixl", "../lib64/tcpx/nixl", INSTALLED,
					     "../plugins/nixl", "build/plugins/nixl"};
	char exe[PATH_MAX] = "", path[2 * PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (named && realpath(named, out))
		return CLI_OK;
	if (named) {
		cli_error("--plugin %s: %s", named, strerror(errno));
		return CLI_FAILED;
	}
	if (len > 0 && strrchr(exe, '/'))
		*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", exe, places[i], OURS);
		if (realpath(path, out))
			return CLI_OK;
	}
	cli_error("no %s beside this program; build with a C++ compiler, or name it with "
		  "--plugin",
		  OURS);
	return CLI_FAILED;
}

static int nixl_env_make_folder(const char *path)
{
	if (!mkdir(path, 0755) || errno == EEXIST)
		return CLI_OK;
	cli_error("%s: %s", path, strerror(errno));
	return CLI_FAILED;
}

static int make_link(const char *target, const char *folder, const char *name)
{
	char path[PATH_MAX + 256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!unlink(path) || errno == ENOENT)
		if (!symlink(target, path))
			return CLI_OK;
	cli_error("%s: %s", path, strerror(errno));
	return CLI_FAILED;
}

/* Copies the file, because the loader would take a link for the library loaded under the other
 * name. */
static int make_alias(const char *plugin, const char *folder)
{
	char path[PATH_MAX + 256];
	ssize_t moved = -1;
	int from, to = -1;

	snprintf(path, sizeof(path), "%s/%s", folder, ALIAS);
	unlink(path); /* NIXL's */
	from = open(plugin, O_RDONLY | O_CLOEXEC);
	if (from >= 0)
		to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0777);
	if (to >= 0)
		while ((moved = sendfile(to, from, NULL, 1 << 30)) > 0)
			;
	if (moved)
		cli_error("%s: %s", path, strerror(errno));
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return moved ? CLI_FAILED : CLI_OK;
}

/* Removes links and our alias, which may be of an earlier NIXL. */
static void clear_folder(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if (!strcmp(entry->d_name, ALIAS) ||
		    (!fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		     S_ISLNK(st.st_mode)))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* Makes links to all shared libraries of a folder. */
static int link_all(const char *from, const char *to)
{
	char target[PATH_MAX + 256];
	struct dirent *entry;
	int rc = CLI_OK;
	DIR *dir = opendir(from);

	if (!dir) {
		cli_error("%s: %s: this NIXL has an unknown layout", from, strerror(errno));
		return CLI_FAILED;
	}
	while (rc == CLI_OK && (entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".so"))
			continue;
		snprintf(target, sizeof(target), "%s/%s", from, entry->d_name);
		rc = make_link(target, to, entry->d_name);
	}
	closedir(dir);
	return rc;
}

/* Plugins of NIXL find their libraries by relative paths, so the layout is the same as in the
 * package. */
static int shadow(const struct nixl *nixl, const char *top, const char *libs, const char *plugins)
{
	char from[PATH_MAX + 256], name[128];
	int rc;

	snprintf(from, sizeof(from), "%s/.%s.mesonpy.libs", nixl->site, nixl->package);
	rc = link_all(from, libs);
	snprintf(from, sizeof(from), "%s/.%s.mesonpy.libs/plugins", nixl->site, nixl->package);
	if (rc == CLI_OK)
		rc = link_all(from, plugins);
	snprintf(from, sizeof(from), "%s/%s.libs", nixl->site, nixl->package);
	snprintf(name, sizeof(name), "%s.libs", nixl->package);
	return rc == CLI_OK ? make_link(from, top, name) : rc;
}

/* Whether the folder may be used: a folder of this command is made again, others are left alone. */
static int check_folder(const char *top, const char *plugins)
{
	char ours[PATH_MAX + 512];
	struct stat st;
	DIR *dir;
	int entries = 0;

	/* NIXL loads every plugin in the folder as code, so only this user may write to it. */
	if (!stat(top, &st) && (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))) {
		cli_error("others may write to %s: owner uid %u, mode %04o; name a "
			  "folder that is yours, or 'chmod go-w' it",
			  top, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
		return CLI_FAILED;
	}
	dir = opendir(top);
	snprintf(ours, sizeof(ours), "%s/%s", plugins, OURS);
	while (dir && readdir(dir))
		entries++;
	if (dir)
		closedir(dir);
	if (entries <= 2 || !lstat(ours, &st))
		return CLI_OK;
	cli_error("%s is not empty and was not made by this command; name another folder", top);
	return CLI_FAILED;
}

/* Prints the export line, quoted for a shell. */
static void nixl_env_print_line(const char *folder)
{
	fputs("export NIXL_PLUGIN_DIR='", stdout);
	for (; *folder; folder++)
		fputs(*folder == '\'' ? "'\\''" : (char[]){*folder, '\0'}, stdout);
	puts("'");
}

/* A folder without NIXL's own plugins is made only on request: it hides those of a NIXL that is
 * installed later, or in another Python. */
static int check_nixl(const struct nixl_env_options *o, const struct nixl *nixl)
{
	if (*nixl->package || o->alone)
		return CLI_OK;
	cli_error("no NIXL in %s; 'pip install nixl' there, name another one with --python, or "
		  "give --alone for a folder that has TCPX alone",
		  o->python);
	return CLI_FAILED;
}

static void nixl_env_say(const struct nixl_env_options *o, const struct nixl *nixl)
{
	if (*nixl->package)
		fprintf(stderr, "%s in %s, and TCPX%s\n", nixl->package, nixl->site,
			o->alias ? ", which is UCX as well" : "");
	if (!strcmp(nixl->importable, "no"))
		fprintf(stderr,
			"this Python has %s and no package nixl, so 'import nixl' fails, as vLLM "
			"does it: pip install nixl\n",
			nixl->package);
	if (!*nixl->package)
		fprintf(stderr,
			"no NIXL in %s: TCPX alone; NIXL's own plugins (UCX, POSIX, ...) are not "
			"in "
			"the folder: run this again when NIXL is installed, or with --python\n",
			o->python);
}

static int nixl_env_make(const struct nixl_env_options *o, const char *wanted)
{
	char plugin[PATH_MAX], top[PATH_MAX], libs[PATH_MAX + 8], plugins[PATH_MAX + 16];
	struct nixl nixl = {"", "", ""};
	int rc = find_plugin(o->plugin, plugin);

	if (rc == CLI_OK)
		rc = ask_python(o->python, o->package, &nixl);
	if (rc == CLI_OK)
		rc = check_nixl(o, &nixl);
	if (rc == CLI_OK)
		rc = nixl_env_make_folder(wanted);
	if (rc != CLI_OK)
		return rc;
	if (!realpath(wanted, top)) {
		cli_error("%s: %s", wanted, strerror(errno));
		return CLI_FAILED;
	}
	snprintf(libs, sizeof(libs), "%s/l", top);
	snprintf(plugins, sizeof(plugins), "%s/l/plugins", top);
	rc = check_folder(top, plugins);
	if (rc == CLI_OK)
		rc = nixl_env_make_folder(libs);
	if (rc == CLI_OK)
		rc = nixl_env_make_folder(plugins);
	if (rc != CLI_OK)
		return rc;
	clear_folder(libs);
	clear_folder(plugins);
	if (*nixl.package)
		rc = shadow(&nixl, top, libs, plugins);
	if (rc == CLI_OK)
		rc = make_link(plugin, plugins, OURS);
	if (rc == CLI_OK && o->alias)
		rc = make_alias(plugin, plugins);
	if (rc != CLI_OK)
		return rc;
	nixl_env_say(o, &nixl);
	nixl_env_print_line(plugins);
	return CLI_OK;
}

static int nixl_env_command(const struct cli_command *command, int argc, char **argv)
{
	struct nixl_env_options o = {0};
	int first, rc = cli_parse(command, argc, argv, &o, &first);

	if (rc == CLI_GO)
		rc = nixl_env_make(&o, argv[first]);
	if (rc != CLI_OK)
		puts("false # tcpx nixl-env failed"); /* or eval "$(...)" would succeed */
	return rc;
}

const struct cli_command command_nixl_env = {
	.name = "nixl-env",
	.args = "FOLDER [options]",
	.summary = "Prepares a plugin folder for NIXL, prints the line to use it",
	COMMAND_OPTIONS(options),
	.min_args = 1,
	.max_args = 1,
	.run = nixl_env_command,
};
