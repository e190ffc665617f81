/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the paths to the other end: D21 rails, D22 path MTU. */
#include <string.h>

#include "doctor_rules.h"

#define NICS_TEXT 200

static int leads(const char *answer)
{
	return !strcmp(answer, "yes") || !strcmp(answer, "refused");
}

/* Reports a rail that leads nowhere. nics: those that work, in the form of TCPX_BIND. */
static void bad_rail(struct doctor_judge *j, unsigned i, const char *nics)
{
	const char *nic = doctor_text(j->facts, "rail.%u.nic", i);
	const char *from = doctor_text(j->facts, "rail.%u.from", i);
	const char *to = doctor_text(j->facts, "rail.%u.to", i);
	const char *out = doctor_text(j->facts, "rail.%u.out", i);
	const char *answer = doctor_text(j->facts, "rail.%u.answer", i);

	if (*nics)
		doctor_warn(j, "rail %s (%s) does not lead to %s: %s", nic, from, to,
			    strcmp(answer, "both") ? answer : "both ends have its address");
	else
		doctor_fail(j, "rail %s (%s) does not lead to %s: %s", nic, from, to,
			    strcmp(answer, "both") ? answer : "both ends have its address");
	if (!strcmp(answer, "both"))
		doctor_cause(j,
			     "the other end has %s, too: what is sent to it, or answered to "
			     "it, stays on that host",
			     from);
	else if (out && strcmp(out, nic))
		doctor_cause(j,
			     "%s is on a network that does not reach the other end: packets to it "
			     "leave by %s, and answers to %s do not come back",
			     nic, out, from);
	else
		doctor_cause(j,
			     "nothing comes back that way: another network, a firewall, a strict "
			     "rp_filter, or a NIC of the other end that is not in use");
	if (*nics)
		doctor_fix(j, "export TCPX_BIND=%s   # what leads there; the library leaves %s out",
			   doctor_quote(nics), doctor_quote(nic));
	else
		doctor_fix(j, "ip route get %s from %s\nip neigh show dev %s", doctor_quote(to),
			   doctor_quote(from), doctor_quote(nic));
}

void doctor_d21_rails(struct doctor_judge *j)
{
	char nics[NICS_TEXT] = "";
	const char *answer;
	unsigned count = 0, good = 0;

	for (; (answer = doctor_text(j->facts, "rail.%u.answer", count)); count++) {
		const char *nic = doctor_text(j->facts, "rail.%u.nic", count);

		if (!nic || !doctor_text(j->facts, "rail.%u.from", count) ||
		    !doctor_text(j->facts, "rail.%u.to", count)) {
			doctor_skip(j, "not known: the ends of rail %u", count);
			return;
		}
		good += leads(answer);
		if (leads(answer) && !doctor_is_listed(nics, nic))
			doctor_add(nics, sizeof(nics), "%s%s", *nics ? "," : "", nic);
	}
	if (!count) {
		if (doctor_has_pair(j))
			doctor_skip(j, "not known: which addresses lead to the other end");
		return;
	}
	for (unsigned i = 0; (answer = doctor_text(j->facts, "rail.%u.answer", i)); i++)
		if (!leads(answer))
			bad_rail(j, i, nics);
	doctor_pass(j, "rails that lead to the other end: %u (%s)", good, nics);
}

static void bad_way(struct doctor_judge *j, const char *from, const char *to)
{
	const char *address = doctor_text(j->facts, "route.0.to");

	doctor_fail(j,
		    "path MTU: packets of the whole MTU from %s to %s are lost, small ones arrive",
		    from, to);
	doctor_cause(j, "a link on the way takes smaller packets, and ICMP 'fragmentation needed' "
			"(ICMPv6 'packet too big') is filtered: channels stall for seconds until "
			"they get smaller packets");
	doctor_fix(j,
		   "tracepath -n %s\n# on both ends: ip link set dev NIC mtu what it says; or let "
		   "ICMP type 3 code 4 and ICMPv6 type 2 pass",
		   doctor_quote(address ? address : "HOST"));
}

void doctor_d22_path(struct doctor_judge *j)
{
	int in = doctor_flag(j->facts, "path.in"), out = doctor_flag(j->facts, "path.out");

	if (in < 0 && out < 0) {
		if (doctor_has_pair(j))
			doctor_skip(j, "not known: whether whole packets arrive");
		return;
	}
	if (!in)
		bad_way(j, "the other end", "here");
	if (!out)
		bad_way(j, "here", "the other end");
	if (in < 0 || out < 0)
		doctor_skip(j, "not known: whether whole packets %s",
			    in < 0 ? "of the other end arrive here" : "arrive at the other end");
	else
		doctor_pass(j, "path MTU: whole packets arrive, both ways");
}
