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

#define PERF_PROTOCOL 3
#define PERF_ECHO 0x45
#define PERF_PONG 0x4f
#define PERF_WORDS_MAX 24
#define PERF_BLOB_MAX 1024
#define PERF_FAILED_MAX 400
#define PERF_MESSAGE_MAX (16 + PERF_WORDS_MAX * 8 + PERF_BLOB_MAX)

enum perf_message_type {
	PERF_HELLO = 1,	    /* -> perf_welcome + "version\nhost\naddress\n..." */
	PERF_ROW = 2,	    /* perf_spec + tokens -> tokens: allocates buffers */
	PERF_ARM = 3,	    /* perf_window: prepare the buffers, post receives */
	PERF_GO = 4,	    /* perf_window: --bidir, run your direction -> perf_ran */
	PERF_END = 5,	    /* perf_window: stop the meters, compare -> perf_verdict */
	PERF_ROW_END = 6,   /* end of the row: release its requests */
	PERF_CEIL_OPEN = 7, /* perf_ceil_spec + secret -> ports + addresses */
	PERF_CEIL_ARM = 8,  /* poison, start the meter */
	PERF_CEIL_END = 9,  /* -> CPU ns */
	PERF_CEIL_CLOSE = 10,
	/* perf_bye, or nothing if it does not come back; text: why the run failed */
	PERF_BYE = 11,
	PERF_PLACE = 12,    /* perf_where -> perf_found + UUID + "pci\nname\n" of a GPU */
	PERF_CEIL_GPU = 13, /* perf_ceil_gpu -> perf_ceil_rates */
	PERF_FACTS = 14,    /* perf_facts_ask -> perf_facts_part + a part of doctor's facts */
};

/* Status of an answer; if it is not OK, the blob is a text. */
enum perf_answer { PERF_DONE = 0, PERF_REFUSED = 1, PERF_BROKEN = 2 };

struct perf_message {
	uint8_t type, is_reply, status;
	uint32_t id;
	uint16_t nwords, blob_len;
	uint64_t words[PERF_WORDS_MAX];
	uint8_t blob[PERF_BLOB_MAX + 1]; /* decoded blobs have a NUL after blob_len */
};

/* Bodies: structs of uint64_t only, sent word by word. */
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
	uint64_t device; /* GPU of the server's buffers, or PERF_DEVICE_FIRST */
	uint64_t pong;	 /* each WRITE carries PERF_PONG and is answered by one; needs bidir */
};

struct perf_where { /* memory of the server */
	uint64_t kind, device;
};

struct perf_found {
	uint64_t device; /* number of the GPU; else 0 */
	uint64_t numa;	 /* NUMA node of the GPU + 1; 0: unknown */
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
	uint64_t real_ns; /* wall clock when this was answered */
};

struct perf_bye {
	/* 1: connects again at once over all rails, so this does not count as a client */
	uint64_t back;
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
	uint64_t congestion[2];				   /* the bytes of perf_meter.congestion */
};

struct perf_ceil_spec {
	uint64_t sockets;     /* sockets per direction */
	uint64_t directions;  /* bit 0: to the server, bit 1: back */
	uint64_t working_set; /* also the bytes of a window per direction, or of a ping */
	uint64_t ping;	      /* enum ceiling_ping; then one socket to the server */
	uint64_t ring;	      /* bytes of the server's buffers; 0: the working set */
};

struct perf_message *perf_message_init(struct perf_message *m, uint8_t type, uint32_t id);

/* Copies a struct of uint64_t into the words; size is a multiple of 8, or 0. */
void perf_message_put(struct perf_message *m, const void *body, size_t size);

/* Copies the words out. Returns 0, or -1 if the message has another number of words. */
int perf_message_get(const struct perf_message *m, void *body, size_t size);

/* Sets the blob. Returns -1 if it does not fit. */
int perf_message_blob(struct perf_message *m, const void *data, size_t len);

/* Returns the bytes written, at most PERF_MESSAGE_MAX. */
size_t perf_message_encode(const struct perf_message *m, uint8_t out[PERF_MESSAGE_MAX]);

/* Returns 0; -1: malformed; -2: another version of the protocol. */
int perf_message_decode(const void *data, size_t len, struct perf_message *out);

#endif
