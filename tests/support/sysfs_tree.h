/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded machines: tests/record/NAME/sysfs.txt unpacked into a folder of its own. */
#ifndef TESTS_SYSFS_TREE_H
#define TESTS_SYSFS_TREE_H

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sysfs_tree {
	char root[64];
};

static inline int sysfs_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0700) && access(path, F_OK))
			return -1;
		*slash = '/';
	}
	return 0;
}

/* One file (or link) of the tree; again under the same name: replaces it. */
static inline int sysfs_put(const struct sysfs_tree *tree, const char *name, const char *value,
			    int link)
{
	char path[3 * PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", tree->root, name);
	if (sysfs_parents(path))
		return -1;
	unlink(path);
	if (link)
		return symlink(value, path);
	file = fopen(path, "we");
	if (!file)
		return -1;
	fprintf(file, "%s\n", value);
	return fclose(file);
}

static inline int sysfs_line(const struct sysfs_tree *tree, char *line, char folder[PATH_MAX])
{
	char name[2 * PATH_MAX], *mark;
	int link;

	line[strcspn(line, "\n")] = '\0';
	if (!*line || *line == '#')
		return 0;
	if (*line == '[') {
		snprintf(folder, PATH_MAX, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
		return 0;
	}
	mark = strstr(line, " -> ");
	link = mark != NULL;
	if (!mark)
		mark = strstr(line, " = ");
	if (!mark)
		return -1;
	*mark = '\0';
	snprintf(name, sizeof(name), "%s/%s", folder, line);
	return sysfs_put(tree, name, mark + (link ? 4 : 3), link);
}

/* An empty tree, below the temporary folder. */
static inline int sysfs_empty(struct sysfs_tree *tree)
{
	snprintf(tree->root, sizeof(tree->root), "/tmp/tcpx-sysfs-XXXXXX");
	return mkdtemp(tree->root) ? 0 : -1;
}

static inline int sysfs_unpack(struct sysfs_tree *tree, const char *machine)
{
	char path[PATH_MAX], line[PATH_MAX], folder[PATH_MAX] = ".";
	FILE *file;
	int rc;

	snprintf(path, sizeof(path), "%s/%s/sysfs.txt", RECORD_DIR, machine);
	file = fopen(path, "re");
	if (!file)
		return -1;
	rc = sysfs_empty(tree);
	while (!rc && fgets(line, sizeof(line), file))
		rc = sysfs_line(tree, line, folder);
	fclose(file);
	return rc;
}

static inline int sysfs_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void sysfs_remove(const struct sysfs_tree *tree)
{
	nftw(tree->root, sysfs_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
