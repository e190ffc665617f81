/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the mappings of this process, one at a time by PROCMAP_QUERY, or from the text of
 * /proc/self/maps. */
#include "sys/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/fd.h"

/* The kernel's struct procmap_query. <linux/fs.h> has it since Linux 6.11. */
struct maps_query {
	uint64_t size, flags, addr;
	uint64_t start, end, perms, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};

_Static_assert(sizeof(struct maps_query) == 104, "the kernel's struct procmap_query");

#define MAPS_QUERY _IOWR('f', 17, struct maps_query)
#define MAPS_READABLE 0x01u
#define MAPS_WRITABLE 0x02u
#define MAPS_EXECUTABLE 0x04u
#define MAPS_SHARED 0x08u
#define MAPS_OR_NEXT 0x10u

/* One mapping of this process. */
struct mapping {
	uint64_t start, end, inode;
	unsigned perms;
	const char *name;
};

struct look {
	uint64_t at, end; /* the rest of the range, which was not examined yet */
	struct sys_maps found;
};

static void look_begin(struct look *look, const void *addr, uint64_t length)
{
	*look = (struct look){.at = (uintptr_t)addr,
			      .end = (uintptr_t)addr + length,
			      .found = {.readable = 1, .writable = 1}};
}

static void perms_text(unsigned perms, char out[5])
{
	out[0] = perms & MAPS_READABLE ? 'r' : '-';
	out[1] = perms & MAPS_WRITABLE ? 'w' : '-';
	out[2] = perms & MAPS_EXECUTABLE ? 'x' : '-';
	out[3] = perms & MAPS_SHARED ? 's' : 'p';
	out[4] = '\0';
}

static void note_unreadable(struct look *look, const char *perms)
{
	if (!look->found.readable)
		return;
	look->found.readable = 0;
	look->found.no_read = look->at;
	memcpy(look->found.read_perms, perms, strlen(perms) + 1);
}

static void note_unwritable(struct look *look, const char *perms)
{
	if (!look->found.writable)
		return;
	look->found.writable = 0;
	look->found.no_write = look->at;
	memcpy(look->found.write_perms, perms, strlen(perms) + 1);
}

/* Whether the memory of a mapping with this name can vanish because a file is truncated. Devices
 * cannot be truncated; pinned memory of a GPU driver is a mapping of a device. Anonymous memory
 * that the kernel shows as a deleted file cannot be truncated either. */
static int can_shrink(const char *name)
{
	struct stat st;

	if (!strcmp(name, "/dev/zero (deleted)") || !strcmp(name, "/anon_hugepage (deleted)"))
		return 0;
	return strncmp(name, "/dev/", 5) != 0 || stat(name, &st) || !S_ISCHR(st.st_mode);
}

/* Records the permissions of a mapping, and of the gap before it. The caller must pass the first
 * mapping that ends after look->at. Returns 1 if the whole range has been examined. */
static int look_at_mapping(struct look *look, const struct mapping *map)
{
	char perms[5];

	if (map->start > look->at) {
		note_unreadable(look, "");
		note_unwritable(look, "");
		look->at = map->start;
		if (look->at >= look->end)
			return 1;
	}
	perms_text(map->perms, perms);
	if (!(map->perms & MAPS_READABLE))
		note_unreadable(look, perms);
	if (!(map->perms & MAPS_WRITABLE))
		note_unwritable(look, perms);
	look->found.file |= map->inode && can_shrink(map->name);
	look->at = map->end;
	return look->at >= look->end;
}

static void note_unmapped_rest(struct look *look)
{
	note_unreadable(look, "");
	note_unwritable(look, "");
}

/* Examines the mappings one by one with PROCMAP_QUERY. Returns 0, or -1 if the kernel lacks this
 * ioctl or it fails. */
static int look_by_ioctl(int fd, struct look *look)
{
	char name[PATH_MAX];

	for (;;) {
		struct maps_query ask = {.size = sizeof(ask),
					 .flags = MAPS_OR_NEXT,
					 .addr = look->at,
					 .name_size = sizeof(name),
					 .name_addr = (uintptr_t)name};
		struct mapping map;

		name[0] = '\0';
		if (ioctl(fd, MAPS_QUERY, &ask)) {
			if (errno == EINTR)
				continue;
			if (errno != ENOENT)
				return -1;
			note_unmapped_rest(look);
			return 0;
		}
		map = (struct mapping){.start = ask.start,
				       .end = ask.end,
				       .inode = ask.inode,
				       .perms = (unsigned)ask.perms,
				       .name = name};
		if (look_at_mapping(look, &map))
			return 0;
	}
}

/* Parses a line "start-end perms offset device inode name". Returns 0, or -1 if it is malformed. */
static int parse_line(char *line, struct mapping *out)
{
	char perms[5];
	int name = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64 " %n", &out->start,
		   &out->end, perms, &out->inode, &name) != 4)
		return -1;
	out->perms = (perms[0] == 'r' ? MAPS_READABLE : 0) | (perms[1] == 'w' ? MAPS_WRITABLE : 0) |
		     (perms[2] == 'x' ? MAPS_EXECUTABLE : 0) | (perms[3] == 's' ? MAPS_SHARED : 0);
	line[strcspn(line, "\n")] = '\0';
	out->name = line + name;
	return 0;
}

int sys_maps_read(const void *addr, uint64_t length, struct sys_maps *out)
{
	FILE *file = fopen("/proc/self/maps", "re");
	struct mapping map;
	struct look look;
	size_t room = 0;
	char *line = NULL;
	int through = 0, wrong = 0;

	if (!file)
		return -1;
	look_begin(&look, addr, length);
	while (!through && !wrong && getline(&line, &room, file) > 0) {
		wrong = parse_line(line, &map);
		if (!wrong && map.end > look.at)
			through = look_at_mapping(&look, &map);
	}
	wrong |= ferror(file);
	free(line);
	fclose(file);
	if (wrong)
		return -1;
	if (!through)
		note_unmapped_rest(&look);
	*out = look.found;
	return 0;
}

int sys_maps_look(const void *addr, uint64_t length, struct sys_maps *out)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), rc;
	struct look look;

	if (fd < 0)
		return -1;
	look_begin(&look, addr, length);
	rc = look_by_ioctl(fd, &look);
	sys_fd_close(fd);
	if (rc)
		return sys_maps_read(addr, length, out);
	*out = look.found;
	return 0;
}
