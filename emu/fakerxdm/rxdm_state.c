/* SPDX-License-Identifier: Apache-2.0 */
/* RxDM's rules: they follow the GPU, not the flow, and every answer sounds well. */
#include "rxdm_state.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define FIRST_QUEUE 8 /* the eight before serve everybody */
#define CODE_INVALID 3
#define CODE_NOT_FOUND 5
#define CODE_EXHAUSTED 8

/* Text up to one of the ends, which is skipped; -1: too long, or empty. */
static int take(const char **pos, const char *ends, char *out, size_t cap)
{
	size_t len = strcspn(*pos, ends);

	if (!len || len >= cap)
		return -1;
	memcpy(out, *pos, len);
	out[len] = '\0';
	*pos += len;
	return 0;
}

static int skip(const char **pos, char what)
{
	if (**pos != what)
		return -1;
	++*pos;
	return 0;
}

static int parse_gpus(struct rxdm_state *state, const char **pos)
{
	int queue = FIRST_QUEUE;

	do {
		struct rxdm_gpu *gpu = &state->gpus[state->ngpus];
		char bus[4], text[PCI_TEXT_MAX];

		if (state->ngpus == RXDM_GPUS || take(pos, ",;", bus, sizeof(bus)))
			return -1;
		snprintf(text, sizeof(text), "%s:00.0", bus);
		if (pci_parse(text, &gpu->pci))
			return -1;
		gpu->nic = state->nnics;
		gpu->first_queue = queue;
		gpu->pool_fd = -1;
		queue += RXDM_QUEUES;
		state->ngpus++;
	} while (!skip(pos, ','));
	return 0;
}

int rxdm_state_parse(struct rxdm_state *state, const char *topo)
{
	do {
		struct rxdm_nic *nic = &state->nics[state->nnics];
		char bus[4], slot[8], text[PCI_TEXT_MAX];

		if (state->nnics == RXDM_NICS || take(&topo, "=", nic->name, sizeof(nic->name)) ||
		    skip(&topo, '=') || take(&topo, ":", nic->ip, sizeof(nic->ip)) ||
		    skip(&topo, ':') || take(&topo, ":", bus, sizeof(bus)) || skip(&topo, ':') ||
		    take(&topo, ":", slot, sizeof(slot)) || skip(&topo, ':'))
			return -1;
		snprintf(text, sizeof(text), "%s:%s", bus, slot);
		if (pci_parse(text, &nic->pci) || parse_gpus(state, &topo))
			return -1;
		state->nnics++;
	} while (!skip(&topo, ';') && *topo);
	return *topo ? -1 : 0;
}

void rxdm_state_refuse(struct rxdm_state *state, int code, const char *why,
		       struct wire_rxdm *out_answer, char *text, size_t cap)
{
	snprintf(text, cap, "Failed to update flow steering rule, error: %s.", why);
	*out_answer = (struct wire_rxdm){.kind = WIRE_RXDM_BYTES,
					 .bytes = (const uint8_t *)text,
					 .bytes_len = strlen(text),
					 .status = code,
					 .words = (const uint8_t *)text,
					 .words_len = strlen(text)};
	state->counts.refused++;
}

static void say_ok(struct wire_rxdm *out_answer)
{
	*out_answer = (struct wire_rxdm){
		.kind = WIRE_RXDM_BYTES, .bytes = (const uint8_t *)"Ok.", .bytes_len = 3};
}

static struct rxdm_gpu *find_gpu(struct rxdm_state *state, const char *text)
{
	char own[PCI_TEXT_MAX];

	for (unsigned i = 0; i < state->ngpus; i++)
		if (!strcmp(text, pci_format(state->gpus[i].pci, own))) /* only as it spells it */
			return &state->gpus[i];
	return NULL;
}

/* A rule that names no GPU is for the first one of the NIC that has the local address. */
static struct rxdm_gpu *gpu_of_rule(struct rxdm_state *state, const struct wire_rxdm *question)
{
	if (question->gpu[0])
		return find_gpu(state, question->gpu);
	for (unsigned i = 0; i < state->ngpus; i++)
		if (!strcmp(state->nics[state->gpus[i].nic].ip, question->rule.dst.ip))
			return &state->gpus[i];
	return NULL;
}

static void end_text(const struct wire_rxdm_end *end, char out[64])
{
	snprintf(out, 64, "%.48s:%d", end->ip, end->port);
}

static struct fakerxdm_rule *find_rule(struct rxdm_state *state, const char *nic, const char *src,
				       const char *dst)
{
	for (unsigned i = 0; i < state->nrules; i++) {
		struct fakerxdm_rule *rule = &state->rules[i];

		if (!strcmp(rule->nic, nic) && !strcmp(rule->src, src) && !strcmp(rule->dst, dst))
			return rule;
	}
	return NULL;
}

/* The queue of the GPU with the fewest flows, or the one that was asked for. */
static int choose_queue(const struct rxdm_gpu *gpu, int wanted)
{
	unsigned best = 0;

	if (wanted >= gpu->first_queue && wanted < gpu->first_queue + RXDM_QUEUES)
		return wanted;
	for (unsigned i = 1; i < RXDM_QUEUES; i++)
		if (gpu->flows[i] < gpu->flows[best])
			best = i;
	return gpu->first_queue + (int)best;
}

static void install(struct rxdm_state *state, struct rxdm_gpu *gpu,
		    const struct wire_rxdm *question, const char *src, const char *dst)
{
	struct fakerxdm_rule *rule = &state->rules[state->nrules++];
	struct rxdm_nic *nic = &state->nics[gpu->nic];

	*rule = (struct fakerxdm_rule){.gpu = gpu->pci,
				       .queue = choose_queue(gpu, question->rule.queue),
				       .elsewhere = strcmp(nic->ip, question->rule.dst.ip) != 0};
	snprintf(rule->src, sizeof(rule->src), "%s", src);
	snprintf(rule->dst, sizeof(rule->dst), "%s", dst);
	memcpy(rule->nic, nic->name, sizeof(rule->nic));
	gpu->flows[rule->queue - gpu->first_queue]++;
	nic->rules++;
	state->counts.installed++;
}

static void uninstall(struct rxdm_state *state, struct rxdm_gpu *gpu, struct fakerxdm_rule *rule)
{
	struct rxdm_gpu *owner = gpu;

	for (unsigned i = 0; i < state->ngpus; i++)
		if (state->gpus[i].pci == rule->gpu)
			owner = &state->gpus[i];
	owner->flows[rule->queue - owner->first_queue]--;
	state->nics[owner->nic].rules--;
	*rule = state->rules[--state->nrules];
	state->counts.uninstalled++;
}

static void answer_rule(struct rxdm_state *state, int installing, const struct wire_rxdm *question,
			struct wire_rxdm *out_answer, char *text, size_t cap)
{
	struct rxdm_gpu *gpu = gpu_of_rule(state, question);
	struct fakerxdm_rule *rule;
	char src[64], dst[64];

	if (question->kind != WIRE_RXDM_RULE || question->rule.flow != WIRE_RXDM_TCP4) {
		rxdm_state_refuse(state, CODE_INVALID, "Invalid Flow Steering Request", out_answer,
				  text, cap);
		return;
	}
	if (!gpu) {
		rxdm_state_refuse(state, CODE_NOT_FOUND, "GPU not found", out_answer, text, cap);
		return;
	}
	end_text(&question->rule.src, src);
	end_text(&question->rule.dst, dst);
	rule = find_rule(state, state->nics[gpu->nic].name, src, dst);
	if (installing && rule) {
		state->counts.duplicates++;
	} else if (installing &&
		   (state->nrules == RXDM_RULES ||
		    (state->max_rules && state->nics[gpu->nic].rules == state->max_rules))) {
		rxdm_state_refuse(state, CODE_EXHAUSTED, "No more rx rules available", out_answer,
				  text, cap);
		return;
	} else if (installing) {
		install(state, gpu, question, src, dst);
	} else if (rule) {
		uninstall(state, gpu, rule);
	}
	say_ok(out_answer);
}

static void answer_query(struct rxdm_state *state, const struct wire_rxdm *question,
			 struct wire_rxdm *out_answer, char *text, size_t cap)
{
	const struct rxdm_gpu *gpu = find_gpu(state, question->gpu);

	state->counts.queries++;
	if (question->kind != WIRE_RXDM_QUERY || !gpu) {
		rxdm_state_refuse(state, gpu ? CODE_INVALID : CODE_NOT_FOUND,
				  "not found in gpu_to_ifname_map", out_answer, text, cap);
		return;
	}
	*out_answer = (struct wire_rxdm){.kind = WIRE_RXDM_QUEUES, .nqueues = RXDM_QUEUES};
	for (int i = 0; i < RXDM_QUEUES; i++)
		out_answer->queues[i] = gpu->first_queue + i;
}

void rxdm_state_answer(struct rxdm_state *state, enum rxdm_door door, unsigned gpu,
		       const struct wire_rxdm *question, struct wire_rxdm *out_answer, char *text,
		       size_t cap)
{
	struct wire_rxdm_memory memory;

	switch (door) {
	case RXDM_INSTALL:
	case RXDM_UNINSTALL:
		answer_rule(state, door == RXDM_INSTALL, question, out_answer, text, cap);
		break;
	case RXDM_QUEUES_OF:
		answer_query(state, question, out_answer, text, cap);
		break;
	case RXDM_REGISTRY:
		state->counts.registered += question->kind == WIRE_RXDM_REGISTER;
		say_ok(out_answer);
		break;
	case RXDM_FD: /* a byte and a descriptor, which are no message */
	case RXDM_MEMORY:
		memory = (struct wire_rxdm_memory){state->gpus[gpu].size_bytes,
						   state->gpus[gpu].align_bytes};
		wire_rxdm_memory_encode(&memory, (uint8_t *)text);
		*out_answer = (struct wire_rxdm){.kind = WIRE_RXDM_BYTES,
						 .bytes = (const uint8_t *)text,
						 .bytes_len = WIRE_RXDM_MEMORY_BYTES};
		state->counts.memory++;
		break;
	}
}

static void write_text(FILE *file, const char *text)
{
	for (; *text; text++)
		fputc(isalnum((unsigned char)*text) || strchr(".:_-", *text) ? *text : '?', file);
}

void rxdm_state_write(const struct rxdm_state *state, const char *path)
{
	const struct fakerxdm_counts *n = &state->counts;
	char next[4096], gpu[PCI_TEXT_MAX];
	FILE *file;

	if (snprintf(next, sizeof(next), "%s.next", path) >= (int)sizeof(next))
		return;
	file = fopen(next, "we");
	if (!file)
		return;
	fprintf(file,
		"{\"installed\": %u, \"uninstalled\": %u, \"duplicates\": %u, \"refused\": %u, "
		"\"queries\": %u, \"memory\": %u, \"descriptors\": %u, \"registered\": %u, "
		"\"rules\": [",
		n->installed, n->uninstalled, n->duplicates, n->refused, n->queries, n->memory,
		n->descriptors, n->registered);
	for (unsigned i = 0; i < state->nrules; i++) {
		const struct fakerxdm_rule *rule = &state->rules[i];

		fprintf(file, "%s\n{\"src\": \"", i ? "," : "");
		write_text(file, rule->src);
		fputs("\", \"dst\": \"", file);
		write_text(file, rule->dst);
		fprintf(file,
			"\", \"gpu\": \"%s\", \"nic\": \"%s\", \"queue\": %d, \"elsewhere\": %s}",
			pci_format(rule->gpu, gpu), rule->nic, rule->queue,
			rule->elsewhere ? "true" : "false");
	}
	fputs("]}\n", file);
	if (fclose(file) || rename(next, path))
		remove(next);
}
