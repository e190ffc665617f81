/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the network and the other end: D12, D13, D17, D18, D20. */
#include <string.h>
#include <tcpx/log.h>

#include "doctor_rules.h"

#define SKEW_NS 100000000
#define RATE_WANTED 0.5	       /* wanted share of the link speed, with all flows */
#define RETRANSMITS_MANY 1000u /* of a measurement of about a second */

/* Checks for strict reverse path filters on a host with several NICs; returns how many NICs are
 * known. */
static unsigned judge_filters(struct doctor_judge *j, unsigned *out_nics)
{
	unsigned strict = 0, known = 0, first = 0;
	uint64_t filter;
	char list[160] = "";
	const char *nic;

	*out_nics = 0;
	for (unsigned i = 0; (nic = doctor_text(j->facts, "nic.%u.name", i)); i++) {
		if (!doctor_text(j->facts, "nic.%u.address", i))
			continue;
		++*out_nics;
		if (doctor_count(j->facts, &filter, "nic.%u.rp_filter", i))
			continue;
		known++;
		if (filter != 1)
			continue;
		if (!strict++)
			first = i;
		doctor_add(list, sizeof(list), "%s%s", *list ? ", " : "", nic);
	}
	if (strict > 1) {
		doctor_warn(j, "rp_filter is strict (1) on %u NICs: %s", strict, list);
		doctor_cause(j, "packets whose answer would leave by another NIC are dropped");
		doctor_fix(j,
			   "sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.%s.rp_filter=2",
			   doctor_quote(doctor_text(j->facts, "nic.%u.name", first)));
	}
	return known;
}

/* out_within: pairs within this host, where both addresses are its own. */
static unsigned judge_routes(struct doctor_judge *j, unsigned *out_unknown, unsigned *out_within)
{
	const char *from;
	unsigned count = 0;

	*out_unknown = *out_within = 0;
	for (; (from = doctor_text(j->facts, "route.%u.from", count)); count++) {
		const char *nic = doctor_text(j->facts, "route.%u.nic", count);
		const char *out = doctor_text(j->facts, "route.%u.out", count);
		const char *to = doctor_text(j->facts, "route.%u.to", count);

		*out_unknown += !nic || !out || !to;
		*out_within += out && !strcmp(out, "lo");
		if (!nic || !out || !to || !strcmp(nic, out) || !strcmp(out, "lo"))
			continue;
		doctor_fail(j, "from %s (%s) to %s packets leave by %s", from, nic, to, out);
		doctor_cause(j,
			     "routes look at the destination alone: the rail is not used, and the "
			     "flow differs from the rule that steers it");
		doctor_fix(j, "ip rule add from %s table 1%02u\nip route add %s dev %s table 1%02u",
			   doctor_quote(from), count, doctor_quote(to), doctor_quote(nic), count);
	}
	return count;
}

/* The address without the port of "10.0.0.1:80", "[fe80::1%eth0]:80" or "host", for a shell. */
static const char *host_of(const char *address, char *buf, size_t cap)
{
	char *end;

	snprintf(buf, cap, "%s", address + (*address == '['));
	end = *address == '[' ? strchr(buf, ']') : strchr(buf, ':');
	if (end && (*address == '[' || !strchr(end + 1, ':'))) /* several: IPv6 without a port */
		*end = '\0';
	return doctor_quote(buf);
}

static unsigned judge_reach(struct doctor_judge *j)
{
	const char *from;
	unsigned count = 0;
	char host[96];

	for (; (from = doctor_text(j->facts, "reach.%u.from", count)); count++) {
		const char *to = doctor_text(j->facts, "reach.%u.to", count);
		const char *answer = doctor_text(j->facts, "reach.%u.answer", count);

		if (!to || !answer || !strcmp(answer, "yes") || !strcmp(answer, "refused"))
			continue;
		doctor_fail(j, "from %s to %s: %s", from, to, answer);
		doctor_cause(j, "no route there, or a firewall drops it; this rail cannot be used");
		doctor_fix(j, "ip route get %s from %s", host_of(to, host, sizeof(host)),
			   doctor_quote(from));
	}
	return count;
}

void doctor_d12_routes(struct doctor_judge *j)
{
	unsigned nics, known = judge_filters(j, &nics), unknown, within;
	unsigned routes = judge_routes(j, &unknown, &within);
	unsigned reached = judge_reach(j);
	char pairs[96];

	snprintf(pairs, sizeof(pairs), "; routes to another host not known (--peer)");
	if (routes || reached)
		snprintf(pairs, sizeof(pairs),
			 "; routes that leave by their NIC: %u, pairs reached: %u", routes - within,
			 reached);
	if (!nics && !routes)
		doctor_skip(j, "not known: NICs with an address, and routes");
	else if (known < nics)
		doctor_skip(j, "not known: rp_filter of %u of %u NICs", nics - known, nics);
	else if (!routes && doctor_text(j->facts, "pair.address"))
		doctor_skip(j, "NICs with an address: %u; not known: routes to the other end",
			    nics);
	else if (unknown)
		doctor_skip(j, "not known: where %u of %u routes leave", unknown, routes);
	else
		doctor_pass(j,
			    "NICs with an address: %u, no strict reverse path filter in the way%s",
			    nics, pairs);
}

/* The other end did not let this one in, or was not asked because it needs a key and none is given:
 * D17 reports it. */
static int not_let_in(const struct doctor_judge *j)
{
	const char *status = doctor_text(j->facts, "pair.status");

	return status && !strcmp(status, tcpx_status_name(TCPX_ERR_AUTH));
}

/* Why the other end does not answer, by the status with which connecting to it ended. */
static void no_answer_cause(struct doctor_judge *j)
{
	static const struct {
		tcpx_status status;
		const char *cause, *fix;
	} rows[] = {
		{TCPX_ERR_REFUSED,
		 "the host answers and nothing listens at that port: no 'tcpx serve' runs there, "
		 "or "
		 "without a key, on loopback only",
		 "tcpx serve --key FILE   # there"},
		{TCPX_ERR_TIMED_OUT,
		 "packets to that port get no answer: a firewall drops them, or the host is down",
		 "nft list ruleset   # on both ends: the port must be let through"},
		{TCPX_ERR_UNREACHABLE, "no route leads there, or the host is down",
		 "ip route get %s   # the NIC that leads there, or no route\n"
		 "ping %s"},
		{TCPX_ERR_NOT_FOUND, "the name has no address here",
		 "getent hosts %s   # or give the address"},
	};
	const char *status = doctor_text(j->facts, "pair.status"), *quoted;
	const char *address = doctor_text(j->facts, "pair.address");
	char host[300];

	quoted = address ? host_of(address, host, sizeof(host)) : "ADDRESS";

	for (size_t i = 0; status && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(status, tcpx_status_name(rows[i].status))) {
			doctor_cause(j, "%s", rows[i].cause);
			doctor_fix(j, rows[i].fix, quoted, quoted);
			return;
		}
	doctor_cause(j, "no 'tcpx serve' runs there, or a firewall is between");
	doctor_fix(j, "tcpx serve --bind NIC --key FILE   # there\nnft list ruleset");
}

void doctor_d13_ports(struct doctor_judge *j)
{
	const char *state = doctor_text(j->facts, "port.state");
	const char *by = doctor_text(j->facts, "port.by");
	const char *pair = doctor_text(j->facts, "pair.state");
	const char *why = doctor_text(j->facts, "pair.why");
	uint64_t port;

	if (pair && !strcmp(pair, "down") && !not_let_in(j)) {
		const char *address = doctor_text(j->facts, "pair.address");

		doctor_fail(j, "the other end %s does not answer%s%s", address ? address : "",
			    why ? ": " : "", why ? why : "");
		no_answer_cause(j);
	}
	if (!state || doctor_count(j->facts, &port, "port.number")) {
		doctor_skip(j, "not known: who listens on the port");
		return;
	}
	if (!strcmp(state, "taken")) {
		doctor_warn(j, "port %llu of this host is taken by %s", (unsigned long long)port,
			    by ? by : "another program");
		doctor_cause(j, "serve moves on to the next port, and clients of this one meet "
				"somebody else");
		doctor_fix(j, "export TCPX_PORT_BASE=%llu",
			   (unsigned long long)(port < 65000 ? port + 100 : 20000));
	}
	doctor_pass(j, "port %llu of this host is %s%s%s%s", (unsigned long long)port,
		    strcmp(state, "ours") ? "free" : "served by tcpx", by ? " (" : "", by ? by : "",
		    by ? ")" : "");
}

/* Reports an unusable key file by its state. */
static void bad_key(struct doctor_judge *j, const char *state)
{
	const char *file = doctor_text(j->facts, "key.file"), *quoted;
	const char *mode = doctor_text(j->facts, "key.mode");

	quoted = file ? doctor_quote(file) : "FILE";
	file = file ? file : "FILE";
	if (!strcmp(state, "mode")) {
		doctor_fail(j, "key file %s has mode %s", file, mode ? mode : "for others");
		doctor_cause(j, "others may read it; it is refused");
		doctor_fix(j, "chmod 600 %s", quoted);
	} else if (!strcmp(state, "owner")) {
		doctor_fail(j, "key file %s belongs to another user", file);
		doctor_cause(j, "a key that others may change proves nothing; it is refused");
		doctor_fix(j, "chown $(id -u) %s", quoted);
	} else if (!strcmp(state, "missing")) {
		doctor_fail(j, "key file %s is not there", file);
		doctor_cause(j, "TCPX_KEY_FILE or --key names it");
		doctor_fix(j,
			   "scp OTHER-HOST:%s %s   # both ends need the same file\n"
			   "tcpx key new %s   # if no host has one yet",
			   quoted, quoted, quoted);
	} else {
		doctor_fail(j, "key file %s %s", file,
			    !strcmp(state, "denied") ? "may not be read" : "has no key in it");
		doctor_cause(j, "another user's, or not made by 'tcpx key new'");
		doctor_fix(j, "tcpx key new %s.new", quoted);
	}
}

/* Whether two lists "id id" have an id in common. */
static int share_id(const char *ours, const char *theirs)
{
	size_t len;

	for (; *ours; ours += len + (ours[len] == ' ')) {
		char id[40];

		len = strcspn(ours, " ");
		snprintf(id, sizeof(id), "%.*s", (int)(len < 39 ? len : 39), ours);
		if (*id && strstr(theirs, id))
			return 1;
	}
	return 0;
}

/* 0: loopback is listened on, or nothing; 1: another address; 2: every interface. */
static int bound(const char *bind)
{
	if (doctor_is_listed(bind, "0.0.0.0") || doctor_is_listed(bind, "::"))
		return 2;
	return *bind && strcmp(bind, "lo") && strcmp(bind, "localhost") &&
	       strncmp(bind, "127.", 4) && strcmp(bind, "::1");
}

void doctor_d17_key(struct doctor_judge *j)
{
	const char *state = doctor_text(j->facts, "key.state");
	const char *bind = doctor_text(j->facts, "bind"), *ids = doctor_text(j->facts, "key.ids");
	const char *theirs = doctor_text(j->facts, "peer.key.ids");
	const char *file = doctor_text(j->facts, "key.file");
	const char *wrong = doctor_text(j->facts, "bind.error");
	int differ, refused;

	if (!state || !bind) {
		doctor_skip(j, "not known: the key file, or where is listened");
		return;
	}
	if (strcmp(state, "ok") && strcmp(state, "none"))
		bad_key(j, state);
	if (wrong) {
		doctor_fail(j, "TCPX_BIND: %s, so nothing is listened on", wrong);
		doctor_cause(j, "a session opens only if all that it names is there");
		doctor_fix_bind(j);
	}
	if (!strcmp(state, "none") && bound(bind) && !wrong) {
		doctor_fail(j, "no key, and %s is listened on", bind);
		doctor_cause(j, "beyond loopback nobody is let in without a key; --insecure lets "
				"everybody in");
		doctor_fix(j, "tcpx key new cluster.key\nexport TCPX_KEY_FILE=$PWD/cluster.key");
	}
	if (bound(bind) == 2 && !wrong) {
		doctor_warn(j, "%s: every interface is listened on", bind);
		doctor_cause(j, "also those that face the world, and no rail is chosen");
		doctor_fix(j, "export TCPX_BIND=eth1   # the interfaces that are rails");
	}
	if (not_let_in(j) && !strcmp(state, "none")) {
		const char *address = doctor_text(j->facts, "pair.address");

		doctor_fail(j, "no key is given here, and %s needs one",
			    address ? address : "the peer");
		doctor_cause(j, "beyond loopback, and wherever serve has a key, both ends need the "
				"same key file");
		doctor_fix(j, "tcpx doctor --peer %s --key FILE   # the file that serve has there",
			   address ? address : "HOST");
	}
	refused = not_let_in(j) && !strcmp(state, "ok");
	differ = ids && theirs && *ids && *theirs && !share_id(ids, theirs);
	if (differ)
		doctor_fail(j, "key ids %s here, %s at the other end", ids, theirs);
	else if (refused)
		doctor_fail(j, "the other end refuses this key: key ids %s here",
			    ids && *ids ? ids : "none");
	if (differ || refused) {
		doctor_cause(j, "the ends have different keys");
		doctor_fix(j,
			   "tcpx key show-id %s   # here\n"
			   "tcpx key show-id FILE   # there, of the file that serve has\n"
			   "scp HOST:FILE .   # the file of serve, mode 0600, where its id differs",
			   file ? doctor_quote(file) : "cluster.key");
	}
	if (!strcmp(state, "none"))
		doctor_pass(j,
			    "no key: only loopback is listened on, where every user of this host "
			    "may connect");
	else
		doctor_pass(j, "key %s, ids %s", doctor_text(j->facts, "key.file"),
			    ids ? ids : "not known");
}

void doctor_d18_tcp(struct doctor_judge *j)
{
	const char *limit = doctor_text(j->facts, "tcp.limit");
	const char *system = doctor_text(j->facts, "sysctl.net.ipv4.tcp_congestion_control");
	uint64_t single, multi, flows, expected, retransmits = 0;
	char text[160];

	if (doctor_count(j->facts, &single, "tcp.single_bps") ||
	    doctor_count(j->facts, &multi, "tcp.multi_bps") ||
	    doctor_count(j->facts, &flows, "tcp.flows")) {
		if (doctor_has_pair(j))
			doctor_skip(j, "not known: rates to the other end");
		return;
	}
	doctor_count(j->facts, &retransmits, "tcp.retransmits");
	snprintf(text, sizeof(text), "one flow %.2f GB/s, %llu flows %.2f GB/s, %llu retransmits",
		 (double)single / 1e9, (unsigned long long)flows, (double)multi / 1e9,
		 (unsigned long long)retransmits);
	if (retransmits > RETRANSMITS_MANY && system && !strncmp(system, "bbr", 3)) {
		doctor_warn(j, "%s, with congestion control %s", text, system);
		doctor_cause(j, "bbr sends more than the path takes, and loses it");
		doctor_fix(j, "export TCPX_CONGESTION=cubic   # and measure again");
	}
	/* A virtual link, such as veth, names a speed that it does not keep to. */
	if (doctor_count(j->facts, &expected, "tcp.expected_bps") || single > expected) {
		doctor_pass(j, "%s; not judged: the speed of the link is not known", text);
		return;
	}
	if ((double)multi < RATE_WANTED * (double)expected) {
		doctor_warn(j, "%s, of %.2f GB/s", text, (double)expected / 1e9);
		if (limit && strcmp(limit, "not attributed"))
			doctor_cause(j, "limited by: %s", limit);
		else
			doctor_cause(j, "not attributed: no counter of TCP explains it");
		doctor_fix(j, "tcpx perf HOST --ceiling   # what plain sockets reach\n"
			      "tcpx doctor --only D10,D12,D15");
	}
	doctor_pass(j, "%s, of %.2f GB/s", text, (double)expected / 1e9);
}

void doctor_d20_clock(struct doctor_judge *j)
{
	int64_t offset;
	uint64_t error = 0, skew;

	if (doctor_signed(j->facts, &offset, "clock.offset_ns") ||
	    doctor_count(j->facts, &error, "clock.error_ns")) {
		if (doctor_has_pair(j))
			doctor_skip(j, "not known: the other end's clock");
		return;
	}
	skew = offset < 0 ? 0 - (uint64_t)offset : (uint64_t)offset;
	if (skew > SKEW_NS && skew - SKEW_NS > error) {
		doctor_warn(j, "the other end's clock is %.3f s %s, known to %.3f s",
			    (double)skew / 1e9, offset < 0 ? "behind" : "ahead",
			    (double)error / 1e9);
		doctor_cause(j, "traces of both ends cannot be merged; nothing else minds");
		doctor_fix(j, "chronyc makestep");
	}
	doctor_pass(j, "the clocks differ by %.3f s, known to %.3f s", (double)skew / 1e9,
		    (double)error / 1e9);
}
