/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about this machine that serve sends to 'tcpx doctor --peer', part by part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doctor_probe.h"
#include "perf_service_priv.h"

/* Probes again. Returns 0, or -1 without memory. */
static int perf_facts_look(struct perf_service *s)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	struct doctor_facts facts = {0};
	FILE *out;
	int bad;

	free(s->facts);
	s->facts = NULL;
	s->facts_len = 0;
	doctor_probe_served(&facts);
	if (tcpx_peer_query(s->house->session, s->peer, &info) == TCPX_OK)
		doctor_put_count(&facts, info.chunk_bytes, "chunk_bytes");
	out = open_memstream(&s->facts, &s->facts_len);
	if (out)
		doctor_facts_write(&facts, out);
	bad = !out || fclose(out) || facts.lost;
	doctor_facts_free(&facts);
	return bad ? -1 : 0;
}

void perf_service_facts(struct perf_service *s, const struct perf_message *request,
			struct perf_message *reply)
{
	static const char malformed[] = "malformed question for facts",
			  none[] = "no memory for facts";
	struct perf_facts_part part;
	struct perf_facts_ask ask;
	struct timespec now;
	size_t len;

	if (perf_message_get(request, &ask, sizeof(ask))) {
		reply->status = PERF_REFUSED;
		perf_message_blob(reply, malformed, sizeof(malformed) - 1);
		return;
	}
	if ((!ask.offset || !s->facts) && perf_facts_look(s)) {
		reply->status = PERF_BROKEN;
		perf_message_blob(reply, none, sizeof(none) - 1);
		return;
	}
	len = ask.offset < s->facts_len ? s->facts_len - (size_t)ask.offset : 0;
	if (len)
		perf_message_blob(reply, s->facts + ask.offset,
				  len < PERF_BLOB_MAX ? len : PERF_BLOB_MAX);
	clock_gettime(CLOCK_REALTIME, &now);
	part = (struct perf_facts_part){
		.total = s->facts_len,
		.real_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
	};
	perf_message_put(reply, &part, sizeof(part));
	s->worked = 1;
}
