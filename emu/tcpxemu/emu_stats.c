/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, the statistics file, and each NIC's count of devmem packets as a file. */
#include "emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct emu_counters emu_count;

/* Those who wait for another count; their number is looked at by all who count. */
static pthread_mutex_t waiters_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t counted = PTHREAD_COND_INITIALIZER;
static _Atomic uint32_t waiters;

void emu_peak(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = atomic_load(peak);

	while (seen < value && !atomic_compare_exchange_weak(peak, &seen, value))
		;
}

void tcpxemu_stats(struct tcpxemu_stats *out)
{
	memset(out, 0, sizeof(*out));
	emu_pool_stats(out);
	out->stalls = emu_count.stalls;
	out->fragments = emu_count.fragments;
	out->reads = emu_count.reads;
	out->sent_messages = emu_count.sent_messages;
	out->received_messages = emu_count.received_messages;
	out->sent_bytes = emu_count.sent_bytes;
	out->received_bytes = emu_count.received_bytes;
	out->comms_open = emu_count.comms_open;
	out->comms_made = emu_count.comms_made;
	out->inits = emu_count.inits;
	out->regs = emu_count.regs;
	out->in_flight_peak = emu_count.in_flight_peak;
	out->calls = emu_count.calls;
	out->violations = tcpxemu_violations(NULL);
	for (int i = 0; i < emu_config.devs; i++)
		out->devmem_packets[i] = emu_count.devmem[i];
	for (int i = 0; i <= EMU_GPUS; i++)
		out->pool_imports[i] = emu_count.imports[i];
}

/* Behind the count. Either it sees the waiter, or the waiter sees the count: both the number of
 * waiters and the counts are sequentially consistent, and this load is an ordinary one. */
static void tell_waiters(void)
{
	if (!atomic_load(&waiters))
		return;
	pthread_mutex_lock(&waiters_lock);
	pthread_cond_broadcast(&counted);
	pthread_mutex_unlock(&waiters_lock);
}

void emu_stats_message(bool sent, uint64_t bytes)
{
	atomic_fetch_add(sent ? &emu_count.sent_bytes : &emu_count.received_bytes, bytes);
	atomic_fetch_add(sent ? &emu_count.sent_messages : &emu_count.received_messages, 1);
	tell_waiters();
}

void emu_stats_stall(void)
{
	atomic_fetch_add(&emu_count.stalls, 1);
	tell_waiters();
}

void emu_stats_comms(int more)
{
	atomic_fetch_add(&emu_count.comms_open, (uint64_t)(int64_t)more);
	tell_waiters();
}

void emu_stats_import(int gpu)
{
	atomic_fetch_add(&emu_count.imports[gpu], 1);
}

static bool same_counts(const struct tcpxemu_stats *a, const struct tcpxemu_stats *b)
{
	return a->sent_messages == b->sent_messages &&
	       a->received_messages == b->received_messages && a->comms_open == b->comms_open &&
	       a->stalls == b->stalls;
}

void tcpxemu_stats_wait(struct tcpxemu_stats *stats)
{
	struct tcpxemu_stats now;

	pthread_mutex_lock(&waiters_lock);
	atomic_fetch_add(&waiters, 1); /* before it looks */
	for (tcpxemu_stats(&now); same_counts(&now, stats); tcpxemu_stats(&now))
		pthread_cond_wait(&counted, &waiters_lock);
	atomic_fetch_sub(&waiters, 1);
	pthread_mutex_unlock(&waiters_lock);
	*stats = now;
}

static void put_total(FILE *file, const char *name, uint64_t value)
{
	fprintf(file, "  \"%s\": %llu,\n", name, (unsigned long long)value);
}

static void put_comms(FILE *file)
{
	pthread_mutex_t *lock;
	const char *comma = "";

	fprintf(file, "  \"comms\": [");
	for (struct emu_ref *ref = emu_refs(&lock); ref; ref = ref->next) {
		bool dead = atomic_load(&ref->dead);

		if (ref->kind == EMU_LISTEN || !ref->comm)
			continue;
		fprintf(file,
			"%s\n    {\"side\": \"%s\", \"dev\": %d, \"open\": %s, \"bytes\": %llu, "
			"\"messages\": %llu, \"fragments\": %llu}",
			comma, ref->kind == EMU_SEND ? "send" : "recv", ref->dev,
			dead ? "false" : "true",
			(unsigned long long)(dead ? ref->bytes : ref->comm->bytes),
			(unsigned long long)(dead ? ref->messages : ref->comm->messages),
			(unsigned long long)(dead ? ref->frags : ref->comm->frags));
		comma = ",";
	}
	pthread_mutex_unlock(lock);
	fprintf(file, "\n  ],\n");
}

static void put_tables(FILE *file)
{
	const char *comma = "";

	fprintf(file, "  \"rx_devmem_pkts\": {");
	for (int i = 0; i < emu_config.devs; i++) {
		fprintf(file, "%s\"%s\": %llu", comma, emu_nic(i)->name,
			(unsigned long long)emu_count.devmem[i]);
		comma = ", ";
	}
	fprintf(file, "},\n  \"pool_imports\": {");
	comma = "";
	for (int i = 0; i <= EMU_GPUS; i++) {
		uint64_t count = emu_count.imports[i];

		if (!count)
			continue;
		fprintf(file, "%s\"%d\": %llu", comma, i, (unsigned long long)count);
		comma = ", ";
	}
	fprintf(file, "},\n  \"violation_codes\": {");
	comma = "";
	for (int i = 0; i < TCPXEMU_VIOLATION_COUNT; i++) {
		uint64_t count = emu_violation_count((enum tcpxemu_violation)i);

		if (!count)
			continue;
		fprintf(file, "%s\"%s\": %llu", comma,
			emu_violation_name((enum tcpxemu_violation)i), (unsigned long long)count);
		comma = ", ";
	}
	fprintf(file, "}\n");
}

static void put_all(FILE *file)
{
	struct tcpxemu_stats stats;

	tcpxemu_stats(&stats);
	fprintf(file, "{\n  \"pid\": %d,\n", (int)getpid());
	put_total(file, "pages_total", stats.pages_total);
	put_total(file, "pages_in_use", stats.pages_in_use);
	put_total(file, "pages_lost", stats.pages_lost);
	put_total(file, "pages_peak", stats.pages_peak);
	put_total(file, "pool_stalls", stats.stalls);
	put_total(file, "fragments", stats.fragments);
	put_total(file, "reads", stats.reads);
	put_total(file, "sent_messages", stats.sent_messages);
	put_total(file, "received_messages", stats.received_messages);
	put_total(file, "sent_bytes", stats.sent_bytes);
	put_total(file, "received_bytes", stats.received_bytes);
	put_total(file, "comms_open", stats.comms_open);
	put_total(file, "comms_made", stats.comms_made);
	put_total(file, "in_flight_peak", stats.in_flight_peak);
	put_total(file, "violations", stats.violations);
	put_comms(file);
	put_tables(file);
	fprintf(file, "}\n");
}

/* Whole or not at all: written beside and renamed. */
int tcpxemu_write_stats(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char beside[sizeof(emu_config.stats) + 32];
	FILE *file;
	int rc = -1;

	if (!emu_config.stats[0])
		return -1;
	pthread_mutex_lock(&lock);
	snprintf(beside, sizeof(beside), "%s.%d", emu_config.stats, (int)getpid());
	file = fopen(beside, "we");
	if (file) {
		put_all(file);
		rc = fclose(file) ? -1 : rename(beside, emu_config.stats);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static void at_exit(void)
{
	tcpxemu_write_stats();
}

void emu_stats_start(void)
{
	atexit(at_exit);
	for (int i = 0; i < emu_config.devs; i++)
		emu_stats_packets(i, 0);
}

/* Adds to the NIC's file, which all processes of the played host share; as ethtool -S prints it. */
void emu_stats_packets(int dev, uint64_t packets)
{
	char name[sizeof(emu_config.packets) + 32], text[64] = "";
	unsigned long long before = 0;
	int fd, len;

	atomic_fetch_add(&emu_count.devmem[dev], packets);
	if (!emu_config.packets[0])
		return;
	snprintf(name, sizeof(name), "%s/%s", emu_config.packets, emu_nic(dev)->name);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX) && pread(fd, text, sizeof(text) - 1, 0) >= 0) {
		if (sscanf(text, "rx_devmem_pkts: %llu", &before) != 1)
			before = 0;
		len = snprintf(text, sizeof(text), "rx_devmem_pkts: %llu\n", before + packets);
		if (pwrite(fd, text, (size_t)len, 0) != len)
			EMU_WARN("TCPXEMU: cannot write %s", name);
	}
	close(fd);
}
