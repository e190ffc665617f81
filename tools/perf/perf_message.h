/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between 'tcpx perf' and 'tcpx serve', carried by notifications. A message is a header of
 * 16 bytes, 64-bit words and a short text; all little-endian, all bounded. A notification that
 * starts with PERF_ECHO is sent back as it came; PERF_PONG comes with a WRITE and asks for one.
 */
#ifndef TOOLS_PERF_MESSAGE_H
#define TOOLS_PERF_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define PERF_PROTOCOL 2
#define PERF_ECHO 0x45
#define PERF_PONG 0x4f
#define PERF_WORDS_MAX 24
#define PERF_BLOB_MAX 1024
#define PERF_FAILED_MAX 400
#define PERF_MESSAGE_MAX (16 + PERF_WORDS_MAX * 8 + PERF_BLOB_MAX)

enum perf_message_type {
	PERF_HELLO = 1,	    /* -> perf_welcome + "version\nhost\naddress\n..." */
	PERF_ROW = 2,	    /* perf_spec + tokens -> tokens: buffers are there */
	PERF_ARM = 3,	    /* perf_window: prepare the buffers, post receives */
	PERF_GO = 4,	    /* perf_window: --bidir, run your direction -> perf_ran */
	PERF_END = 5,	    /* perf_window: stop the meters, compare -> perf_verdict */
	PERF_ROW_END = 6,   /* the row is over: release its requests */
	PERF_CEIL_OPEN = 7, /* perf_ceil_spec + secret -> ports + addresses */
	PERF_CEIL_ARM = 8,  /* poison, start the meter */
	PERF_CEIL_END = 9,  /* -> CPU ns */
	PERF_CEIL_CLOSE = 10,
	PERF_BYE = 11,	    /* perf_bye, or nothing: it does not come back; why its run failed */
	PERF_PLACE = 12,    /* perf_where -> perf_found + UUID + "pci\nname\n" of a GPU */
	PERF_CEIL_GPU = 13, /* perf_ceil_gpu -> perf_ceil_rates */
	PERF_FACTS = 14,    /* perf_facts_ask -> perf_facts_part + a part of doctor's facts */
};

/* Status of an answer; the blob is the text of one that is not OK. */
enum perf_answer { PERF_DONE = 0, PERF_REFUSED = 1, PERF_BROKEN = 2 };

struct perf_message {
	uint8_t type, is_reply, status;
	uint32_t id;
	uint16_t nwords, blob_len;
	uint64_t words[PERF_WORDS_MAX];
	uint8_t blob[PERF_BLOB_MAX + 1]; /* decoded ones end with a NUL beyond blob_len */
};

/* The bodies: structs of uint64_t alone, sent word by word. */
struct perf_welcome {
	uint64_t memory_limit; /* bytes of buffers for one client */
	uint64_t kinds;	       /* bit set of enum tcpx_mem_kind */
};

struct perf_spec {
	uint64_t op; /* enum tcpx_op: WRITE, READ, SEND */
	uint64_t working_set, size, batch, depth;
	uint64_t kind; /* enum tcpx_mem_kind of the server's buffers */
	uint64_t bidir, seed;
	uint64_t check;	 /* compare every byte after a window */
	uint64_t device; /* of the server's buffers in GPU memory; PERF_DEVICE_FIRST */
	uint64_t pong;	 /* WRITEs carry PERF_PONG, and each is answered by one; with bidir */
};

struct perf_where { /* memory of the server */
	uint64_t kind, device;
};

struct perf_found {
	uint64_t device; /* which it is; 0 but for a GPU */
	uint64_t numa;	 /* node next to the GPU + 1; 0: unknown */
};

struct perf_ceil_gpu {
	uint64_t device, d2h, h2d; /* which of them are measured */
};

struct perf_ceil_rates {
	uint64_t d2h, h2d; /* bytes per second, 0: not measured */
};

struct perf_facts_ask {
	uint64_t offset; /* 0: look anew */
};

struct perf_facts_part {
	uint64_t total;	  /* bytes of the whole text */
	uint64_t real_ns; /* the clock of the day, when this was answered */
};

struct perf_bye {
	uint64_t back; /* 1: back at once over all rails, this was no client yet */
};

struct perf_window {
	uint64_t number;   /* part of the pattern's key */
	uint64_t used;	   /* transfers */
	uint64_t measured; /* 0: warm-up */
	uint64_t inject;   /* END: flip a byte before the comparison */
};

struct perf_ran {
	uint64_t elapsed_ns;
};

struct perf_verdict {
	uint64_t wrong, first; /* bytes; offset of the first */
	uint64_t cpu_ns;
	uint64_t busy_ns, rwnd_ns, sndbuf_ns, retransmits; /* growth of TCP_INFO sums */
};

struct perf_ceil_spec {
	uint64_t sockets;     /* for each direction */
	uint64_t directions;  /* bit 0: to the server, bit 1: back */
	uint64_t working_set; /* also the bytes of a window, for each direction, or of a ping */
	uint64_t ping;	      /* enum ceiling_ping; then one socket to the server */
	uint64_t ring;	      /* bytes of the server's buffers, walked through; 0: all of them */
};

struct perf_message *perf_message_init(struct perf_message *m, uint8_t type, uint32_t id);

/* Copies a struct of uint64_t into the words; size is a multiple of 8, 0: none. */
void perf_message_put(struct perf_message *m, const void *body, size_t size);

/* Copies it out. 0; -1 when the message holds another number of words. */
int perf_message_get(const struct perf_message *m, void *body, size_t size);

/* Sets the blob; -1 when it does not fit. */
int perf_message_blob(struct perf_message *m, const void *data, size_t len);

/* Bytes written, at most PERF_MESSAGE_MAX. */
size_t perf_message_encode(const struct perf_message *m, uint8_t out[PERF_MESSAGE_MAX]);

/* 0; -1 malformed; -2 another version of the protocol. */
int perf_message_decode(const void *data, size_t len, struct perf_message *out);

#endif
