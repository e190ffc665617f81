/* SPDX-License-Identifier: Apache-2.0 */
/* The expansion of a bind list: interfaces, patterns, subnets, exclusions. */
#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "sys/addr.h"
#include "sys/iface.h"

#define ENTRY_MAX 160 /* more than the 127 bytes of the longest alternative name */

/* State of one expansion. */
struct expansion {
	const struct sys_iface *ifaces;
	unsigned niface;
	struct sockaddr_storage *out;
	unsigned max, count;
	bool without; /* the list begins with ^: it names what to exclude */
	char *list;   /* entries of a list that excludes, without the ^; else NULL */
};

/* One entry of the list. NAMED is the name of an interface, EXACT a name written as "=name",
 * BEGINNING the beginning of the names of interfaces. The other kinds are as in
 * sys_iface_expand. */
struct entry {
	enum { NAMED, EXACT, BEGINNING, GLOB, SUBNET, ADDRESS } kind;
	const char *text;
	char name[IF_NAMESIZE]; /* NAMED, EXACT: the interface's primary name */
	struct sockaddr_storage addr;
	unsigned prefix;
};

/* Adds an address to the result unless the result contains it. Returns ERR_LIMIT if the result is
 * full. */
static tcpx_status bind_add(struct expansion *e, const struct sockaddr_storage *addr)
{
	for (unsigned i = 0; i < e->count; i++)
		if (sys_addr_same_host(&e->out[i], addr))
			return TCPX_OK;
	if (e->count == e->max) {
		error_set(TCPX_ERR_LIMIT, 0, "more than %u addresses to bind to", e->max);
		return error_next("name fewer interfaces or addresses");
	}
	e->out[e->count++] = *addr;
	return TCPX_OK;
}

/* Replaces the advice of the last error by the local addresses that are not link-local: as many as
 * there is room for, and the number of those left out. Returns the status of the last error. */
static tcpx_status next_step_choices(const struct expansion *e)
{
	char text[120] = "", addr[SYS_ADDR_TEXT];
	size_t len = 0;
	unsigned left = 0;

	for (unsigned i = 0; i < e->niface; i++) {
		const struct sys_iface *iface = &e->ifaces[i];
		int put;

		if (sys_addr_is_link_local(&iface->addr))
			continue;
		sys_addr_host_text(&iface->addr, addr);
		put = snprintf(text + len, sizeof(text) - len, "%s%s %s", len ? ", " : "",
			       iface->name, addr);
		if (put < 0 || (size_t)put >= sizeof(text) - len) {
			text[len] = '\0';
			left++;
			continue;
		}
		len += (size_t)put;
	}
	if (len && left)
		return error_next("use one of: %s, %u more in 'ip addr'", text, left);
	if (len)
		return error_next("use one of: %s", text);
	return error_next("bring an interface up and give it an address");
}

/* Parses the prefix length of a subnet. Returns false if it is malformed or too large for the
 * family of the address. */
static bool parse_bits(const char *text, const struct sockaddr_storage *addr, unsigned *out)
{
	char *end;
	unsigned long bits = strtoul(text, &end, 10);

	*out = (unsigned)bits;
	return isdigit((unsigned char)*text) && !*end &&
	       bits <= (addr->ss_family == AF_INET ? 32 : 128);
}

/* Whether the text ends with a port, as in "10.0.0.1:80", "[::1]:80", "fd09::1:20000" or "eth0:80".
 * A port is right for connecting but not for binding. Does not check whether an interface or host
 * has the name before the port. `without` becomes the text without the port. */
static bool has_port(const char *text, char without[ENTRY_MAX])
{
	const char *colon = strrchr(text, ':');
	struct sockaddr_storage addr;
	size_t len;

	if (!colon || !isdigit((unsigned char)colon[1]) ||
	    colon[1 + strspn(colon + 1, "0123456789")])
		return false;
	len = (size_t)(colon - text);
	if (*text == '[' && len > 2 && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	snprintf(without, ENTRY_MAX, "%.*s", (int)len, text);
	return !strchr(without, ':') || sys_addr_parse(without, 0, &addr) == TCPX_OK;
}

static bool is_glob(const char *text)
{
	return strpbrk(text, "*?[") && !strchr(text, ':');
}

/* Whether an interface has this name or alternative name, even if it is down. `out` becomes the
 * interface's primary name. */
static bool is_interface(const struct expansion *e, const char *name, char out[IF_NAMESIZE])
{
	unsigned index;

	for (unsigned i = 0; i < e->niface; i++)
		if (!strcmp(e->ifaces[i].name, name)) {
			snprintf(out, IF_NAMESIZE, "%s", name);
			return true;
		}
	/* sys_iface_number() would cut the name at a colon */
	index = strchr(name, ':') ? 0 : sys_iface_number(name);
	return index && if_indextoname(index, out);
}

/* Sets the error for an entry that is neither an interface nor an address, and returns its
 * status. */
static tcpx_status entry_error(const struct expansion *e, const char *text)
{
	char without[ENTRY_MAX];

	if (*text == '^') {
		error_set(TCPX_ERR_INVALID, 0,
			  "'%.60s': ^ is allowed only at the start of the list", text);
		return error_next("write ^A,B to exclude A and B, or name the interfaces to use");
	}
	if (has_port(text, without)) {
		error_set(TCPX_ERR_INVALID, 0,
			  "'%.60s' has a port, which an address to bind to must not have", text);
		return error_next("write %.60s; the port is a separate option", without);
	}
	error_set(TCPX_ERR_ADDRESS, 0, "%.60s is neither an interface nor an address", text);
	return next_step_choices(e);
}

/* Parses ADDRESS or ADDRESS/BITS. out->kind becomes SUBNET if the text has a slash, else ADDRESS.
 * Returns ERR_INVALID if the text is malformed. */
static tcpx_status parse_address(char *text, struct entry *out)
{
	char *slash = strchr(text, '/'), *end = text + strlen(text);
	bool good = true;

	if (slash)
		*slash = '\0';
	if (*text == '[' && text[strlen(text) - 1] == ']') {
		text[strlen(text) - 1] = '\0';
		text++;
	}
	if (sys_addr_parse(text, 0, &out->addr) != TCPX_OK)
		good = false;
	else if (slash)
		good = parse_bits(slash + 1, &out->addr, &out->prefix);
	if (slash && slash < end)
		*slash = '/';
	out->kind = slash ? SUBNET : ADDRESS;
	return good ? TCPX_OK : TCPX_ERR_INVALID;
}

static tcpx_status parse_entry(const struct expansion *e, char *text, struct entry *out)
{
	char copy[ENTRY_MAX];

	*out = (struct entry){.text = text};
	if (!*text) {
		error_set(TCPX_ERR_INVALID, 0, "empty entry in the list of addresses to bind to");
		return error_next("write it as IF or ADDRESS, with commas between");
	}
	if (strcmp(text, "localhost") == 0)
		text = memcpy(copy, "127.0.0.1", sizeof("127.0.0.1"));
	else
		memcpy(copy, text, strlen(text) + 1);
	if (parse_address(copy, out) == TCPX_OK)
		return TCPX_OK;
	if (out->kind == SUBNET) {
		error_set(TCPX_ERR_INVALID, 0, "%.60s is not a subnet", text);
		return error_next("write it as 10.9.0.0/24 or fd09::/64");
	}
	if (*text == '=') {
		out->kind = EXACT;
		out->text = text + 1;
		if (is_interface(e, out->text, out->name) || e->without)
			return TCPX_OK; /* an excluded interface need not exist */
	} else if (is_glob(text)) {
		out->kind = GLOB;
		return TCPX_OK;
	} else if (*text != '^') {
		out->kind = NAMED;
		if (is_interface(e, text, out->name))
			return TCPX_OK;
		out->kind = BEGINNING;
		for (unsigned i = 0; i < e->niface; i++)
			if (!strncmp(e->ifaces[i].name, text, strlen(text)))
				return TCPX_OK;
		if (e->without)
			return TCPX_OK;
	}
	return entry_error(e, out->text);
}

static bool entry_matches(const struct entry *entry, const struct sys_iface *iface)
{
	switch (entry->kind) {
	case SUBNET:
		return sys_addr_same_subnet(&entry->addr, &iface->addr, entry->prefix);
	case ADDRESS:
		return sys_addr_same_subnet(&entry->addr, &iface->addr, 128);
	case GLOB:
		return !fnmatch(entry->text, iface->name, 0);
	case BEGINNING:
		return !strncmp(iface->name, entry->text, strlen(entry->text));
	default:
		return !strcmp(iface->name, entry->name);
	}
}

/* Adds the first v4 and the first v6 address of an interface. Adds a link-local address only if the
 * interface has no other address. */
static tcpx_status add_interface(struct expansion *e, const char *name)
{
	const struct sys_iface *first4 = NULL, *first6 = NULL, *link6 = NULL;
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; i < e->niface; i++) {
		const struct sys_iface *iface = &e->ifaces[i];

		if (strcmp(iface->name, name))
			continue;
		if (iface->addr.ss_family == AF_INET)
			first4 = first4 ? first4 : iface;
		else if (sys_addr_is_link_local(&iface->addr))
			link6 = link6 ? link6 : iface;
		else
			first6 = first6 ? first6 : iface;
	}
	if (!first4 && !first6)
		first6 = link6;
	if (!first4 && !first6) {
		error_set(TCPX_ERR_ADDRESS, 0, "interface %.32s is down or has no address", name);
		return next_step_choices(e);
	}
	if (first4)
		status = bind_add(e, &first4->addr);
	if (status == TCPX_OK && first6)
		status = bind_add(e, &first6->addr);
	return status;
}

/* Adds addresses of all interfaces that match the entry and have a carrier. For a SUBNET it adds
 * the first address in the subnet, for other kinds what add_interface() adds. */
static tcpx_status add_matching(struct expansion *e, const struct entry *entry)
{
	tcpx_status status = TCPX_OK;
	bool any = false;

	for (unsigned i = 0; i < e->niface && status == TCPX_OK; i++) {
		const struct sys_iface *iface = &e->ifaces[i];
		bool listed_before = false;

		if (!iface->carrier || !entry_matches(entry, iface))
			continue;
		for (unsigned k = 0; k < i; k++)
			listed_before |= !strcmp(e->ifaces[k].name, iface->name) &&
					 e->ifaces[k].addr.ss_family == iface->addr.ss_family &&
					 entry_matches(entry, &e->ifaces[k]);
		any = true;
		if (entry->kind != SUBNET)
			status = add_interface(e, iface->name);
		else if (!listed_before)
			status = bind_add(e, &iface->addr);
	}
	if (any || status != TCPX_OK)
		return status;
	error_set(TCPX_ERR_ADDRESS, 0, "%.60s matches no interface that is up with a carrier",
		  entry->text);
	return next_step_choices(e);
}

/* Adds an address of this host, a wildcard, or an address in 127/8. Returns ERR_ADDRESS for any
 * other address, and for a link-local one without a scope id that several interfaces have. */
static tcpx_status add_address(struct expansion *e, const struct entry *entry)
{
	struct sockaddr_storage addr = entry->addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	const struct sys_iface *found = NULL;

	if (sys_addr_is_any(&addr) || (addr.ss_family == AF_INET && sys_addr_is_loopback(&addr)))
		return bind_add(e, &addr);
	for (unsigned i = 0; i < e->niface; i++) {
		const struct sys_iface *iface = &e->ifaces[i];
		const struct sockaddr_in6 *ours = (const struct sockaddr_in6 *)&iface->addr;

		if (!entry_matches(entry, iface))
			continue;
		if (sys_addr_is_link_local(&addr) && in6->sin6_scope_id &&
		    in6->sin6_scope_id != ours->sin6_scope_id)
			continue;
		if (sys_addr_is_link_local(&addr) && found) {
			error_set(TCPX_ERR_ADDRESS, 0, "%.60s is on %s and on %s", entry->text,
				  found->name, iface->name);
			return error_next("write %.50s%%%s or %%%s", entry->text, found->name,
					  iface->name);
		}
		found = found ? found : iface;
	}
	if (found)
		return bind_add(e, &found->addr);
	error_set(TCPX_ERR_ADDRESS, 0, "%.60s is not an address of this machine", entry->text);
	return next_step_choices(e);
}

/* Whether the name begins like those that container engines and hypervisors give to bridges and
 * virtual Ethernet devices. */
static int is_container(const char *name)
{
	static const char *const beginnings[] = {
		"docker", "br-",  "veth", "cni",  "flannel",	  "cali",   "cilium", "lxc",  "lxd",
		"virbr",  "vnet", "tunl", "kube", "nodelocaldns", "podman", "weave",  "dummy"};

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
			return 1;
	return 0;
}

/* Returns the speed of an interface in Mb/s, or 0 if it is unknown. */
static long interface_speed(const char *name)
{
	char path[PATH_MAX], text[32] = "";
	long speed;
	FILE *file;

	snprintf(path, sizeof(path), "%s/class/net/%s/speed", config_text(CONFIG_SYSFS), name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	speed = strtol(text, NULL, 10);
	return speed > 0 ? speed : 0;
}

static bool is_excluded(const struct expansion *e, const struct sys_iface *iface)
{
	struct entry entry;

	for (char *text = e->list; text; text = *text ? text + strlen(text) + 1 : NULL)
		if (*text && parse_entry(e, text, &entry) == TCPX_OK &&
		    entry_matches(&entry, iface))
			return true;
	return false;
}

/* Whether "auto" may use the address. Does not check the speed of its interface. */
static bool is_candidate(const struct expansion *e, const struct sys_iface *iface)
{
	return !iface->loopback && iface->carrier && !is_container(iface->name) &&
	       !sys_addr_is_link_local(&iface->addr) && !is_excluded(e, iface);
}

/* Adds the addresses that "auto" stands for (see sys_iface_expand). An interface of unknown speed
 * is never too slow. */
static tcpx_status add_auto(struct expansion *e)
{
	struct sockaddr_storage loopback;
	long fastest = 0, speed;
	tcpx_status status = TCPX_OK;

	for (unsigned i = 0; i < e->niface; i++)
		if (is_candidate(e, &e->ifaces[i]) &&
		    (speed = interface_speed(e->ifaces[i].name)) > fastest)
			fastest = speed;
	for (unsigned i = 0; i < e->niface && status == TCPX_OK && e->count < e->max; i++) {
		const struct sys_iface *iface = &e->ifaces[i];
		bool listed_before = false;

		for (unsigned k = 0; k < i; k++)
			listed_before |= is_candidate(e, &e->ifaces[k]) &&
					 !strcmp(e->ifaces[k].name, iface->name);
		if (!is_candidate(e, iface) || listed_before)
			continue;
		speed = interface_speed(iface->name);
		if (!speed || speed * 2 >= fastest)
			status = bind_add(e, &iface->addr);
	}
	if (status != TCPX_OK || e->count)
		return status;
	if (e->without) {
		error_set(TCPX_ERR_ADDRESS, 0, "the list excludes every usable interface");
		return next_step_choices(e);
	}
	LOG_INFO("no interface leads to other hosts: using loopback only");
	status = sys_addr_parse("127.0.0.1", 0, &loopback);
	return status == TCPX_OK ? bind_add(e, &loopback) : status;
}

/* Adds the addresses of one entry. If the list excludes (e->without), only checks the entry. */
static tcpx_status add_entry(struct expansion *e, char *text)
{
	struct entry entry;
	tcpx_status status;

	if (strcmp(text, "auto") == 0 && !e->without)
		return add_auto(e);
	status = parse_entry(e, text, &entry);
	if (status != TCPX_OK || e->without)
		return status;
	switch (entry.kind) {
	case ADDRESS:
		return add_address(e, &entry);
	case NAMED:
	case EXACT:
		return add_interface(e, entry.name);
	default:
		return add_matching(e, &entry);
	}
}

/* Cuts the next entry out of *list and returns it without the blanks around it. *list moves to the
 * entry after it, or becomes NULL. */
static char *next_entry(char **list)
{
	char *text = *list, *end = text + strcspn(text, ",");

	*list = *end ? end + 1 : NULL;
	*end = '\0';
	text += strspn(text, " \t");
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

/* Expands the list. If the list excludes (e->without), copies its entries to e->list, one string
 * after the other with an empty string at the end, and then adds the addresses of "auto". */
static tcpx_status expand_list(struct expansion *e, char *rest)
{
	char *to = e->list;
	tcpx_status status = TCPX_OK;

	while (rest && status == TCPX_OK) {
		char *text = next_entry(&rest);
		size_t bytes = strlen(text) + 1;

		if (bytes > ENTRY_MAX)
			return error_set(TCPX_ERR_INVALID, 0,
					 "'%.60s...' is neither an interface nor an address", text);
		status = add_entry(e, text);
		if (e->without)
			to = (char *)memcpy(to, text, bytes) + bytes;
	}
	return status == TCPX_OK && e->without ? add_auto(e) : status;
}

tcpx_status sys_iface_expand_of(const char *list, const struct sys_iface *ifaces, unsigned nifaces,
				struct sockaddr_storage *out_addrs, unsigned max,
				unsigned *out_count)
{
	struct expansion e = {.ifaces = ifaces, .niface = nifaces, .out = out_addrs, .max = max};
	size_t len = strlen(list);
	char *copy = calloc(2, len + 2), *begin;
	tcpx_status status;

	if (!copy)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "list of addresses to bind to");
	memcpy(copy, list, len);
	begin = copy + strspn(copy, " \t");
	e.without = *begin == '^';
	e.list = e.without ? copy + len + 2 : NULL;
	status = expand_list(&e, begin + e.without);
	free(copy);
	if (status == TCPX_OK)
		*out_count = e.count;
	return status;
}

tcpx_status sys_iface_expand(const char *list, struct sockaddr_storage *out_addrs, unsigned max,
			     unsigned *out_count)
{
	struct sys_iface *ifaces;
	unsigned nifaces;
	tcpx_status status = sys_iface_list(&ifaces, &nifaces);

	if (status != TCPX_OK)
		return status;
	status = sys_iface_expand_of(list, ifaces, nifaces, out_addrs, max, out_count);
	free(ifaces);
	return status;
}
