/* SPDX-License-Identifier: Apache-2.0 */
/* Values of tcpx's options in the environment, for D16: each is judged as the library reads it. */
#include <string.h>

#include "base/config.h"
#include "doctor_rules.h"
#include "sys/addr.h"

#define ALLOWED "net.ipv4.tcp_allowed_congestion_control"
#define AVAILABLE "net.ipv4.tcp_available_congestion_control"

static const struct doctor_facts *facts_read; /* for value_of() */

/* The text of a variable in the facts; NULL: not set, or hidden. */
static const char *value_of(const char *name)
{
	const char *value = doctor_text(facts_read, "env.%s", name);

	return value && strcmp(value, "(hidden)") ? value : NULL;
}

/* Reports values that the library refuses, and what it takes in their place. */
static void judge_ranges(struct doctor_judge *j)
{
	const struct config_row *row;
	struct config_value value;

	for (unsigned i = 0; (row = config_row(i)); i++) {
		int len, of_perf = !strncmp(row->name, "TCPX_PERF", 9);

		config_resolve(row, value_of, &value);
		if (!value.wrong)
			continue;
		len = (int)strcspn(value.wrong, " ");
		doctor_warn(j, "%.*s=%.80s is not in %s (%s)", len, value.wrong, value.wrong_text,
			    config_range(i), config_type_name(row->type));
		doctor_cause(j, of_perf ? "tcpx perf refuses it"
					: "it is not used; the default counts");
		doctor_fix(j, "unset %.*s", len, value.wrong);
	}
}

/* Reports addresses with which no session opens. */
static void judge_addresses(struct doctor_judge *j)
{
	const char *wrong = doctor_text(j->facts, "bind.error");
	const char *bind = doctor_text(j->facts, "bind"), *address = value_of("TCPX_CTRL_IP");
	struct sockaddr_storage addr;

	if (wrong) {
		doctor_fail(j, "TCPX_BIND=%.80s: %s", bind ? bind : "", wrong);
		doctor_cause(j, "no session opens with it");
		doctor_fix_bind(j);
	}
	if (address && *address && sys_addr_parse(address, 0, &addr) != TCPX_OK) {
		doctor_fail(j, "TCPX_CTRL_IP=%.80s is not an IP address", address);
		doctor_cause(j, "no session opens with it");
		doctor_fix(j, "unset TCPX_CTRL_IP   # or an address at which peers reach this one");
	}
}

void doctor_fix_bind(struct doctor_judge *j)
{
	const char *next = doctor_text(j->facts, "bind.next");

	doctor_fix(j, "unset TCPX_BIND   # or %s", next ? next : "name an interface of 'ip addr'");
}

/* Whether a list of words that are separated by spaces contains the name. */
static int has_word(const char *list, const char *name)
{
	char words[256], *word, *rest = words;

	snprintf(words, sizeof(words), "%s", list);
	while ((word = strsep(&rest, " ")) != NULL)
		if (!strcmp(word, name))
			return 1;
	return 0;
}

/* Checks that the kernel has the congestion control, and that unprivileged processes may use it;
 * returns whether that is known. */
static int judge_congestion(struct doctor_judge *j)
{
	const char *name = doctor_text(j->facts, "env.TCPX_CONGESTION");
	const char *available = doctor_text(j->facts, "sysctl." AVAILABLE);
	const char *allowed = doctor_text(j->facts, "sysctl." ALLOWED);
	int admin = doctor_flag(j->facts, "cap.net_admin");
	char words[256];

	if (!name || !*name)
		return 1;
	if (available && !has_word(available, name)) {
		doctor_warn(j, "TCPX_CONGESTION=%.40s, and the kernel has: %s", name, available);
		doctor_cause(j, "the kernel refuses it, and the connections keep the system's");
		doctor_fix(j, "modprobe tcp_%.40s   # or set TCPX_CONGESTION to one of the list",
			   name);
		return 1;
	}
	if (admin == 1)
		return 1;
	if (!allowed || admin < 0)
		return 0;
	if (has_word(allowed, name))
		return 1;
	doctor_warn(j, "TCPX_CONGESTION=%.40s without CAP_NET_ADMIN; all may have: %s", name,
		    allowed);
	doctor_cause(j, "the kernel refuses it, and the connections keep the system's");
	snprintf(words, sizeof(words), "%s %.40s", allowed, name);
	doctor_fix(j, "sysctl -w " ALLOWED "=%s", doctor_quote(words));
	return 1;
}

/* Checks the values of options. Returns whether all that is needed is known. */
int doctor_judge_values(struct doctor_judge *j)
{
	facts_read = j->facts;
	judge_ranges(j);
	judge_addresses(j);
	return judge_congestion(j);
}
