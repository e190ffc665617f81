/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the emulator's v7 table from one thread: both ends of comms, and a consumer's duties. */
#ifndef EMU_RIG_H
#define EMU_RIG_H

#include "check.h"
#include "tcpxemu/emu_abi.h"

#define RIG_CHUNK 524288u

struct rig {
	volatile struct emu_table_v7 *net;
	void (*set_gpu)(int gpu);
	int (*get_gpu)(void);
	void (*stats)(struct tcpxemu_stats *out);
	void (*stats_wait)(struct tcpxemu_stats *stats);
	uint64_t (*violations)(const char *name);
	int (*write_stats)(void);
};
extern struct rig rig;

/* Two ends of a comm in this process. */
struct rig_pair {
	uint8_t handle[EMU_HANDLE_BYTES] __attribute__((aligned(16)));
	uint8_t store[512] __attribute__((aligned(16)));
	struct emu_device_handle *devhandle;
	void *listen, *send, *recv, *send_mr, *recv_mr;
	int type;
	uint8_t *from, *to; /* 8 MiB each, aligned to pages */
	uint64_t receives;  /* posted so far: the next one's slot is this mod 16 */
	uint64_t consumed;
};
#define RIG_BUFFER ((size_t)8 << 20)

/* Sets the environment that every case begins with; a case changes it before rig_load. */
void rig_env(void);
/* Loads and initialises; init's answer. */
int rig_load(void);
void rig_start(void); /* rig_env, rig_load, which must succeed */
void rig_log(int level, unsigned long subsys, const char *file, int line, const char *format, ...);

/* One end's setup; type is EMU_HOST or EMU_CUDA. gpu is current for listen and accept. */
void rig_listen(struct rig_pair *pair, int dev, int gpu);
int rig_meet(struct rig_pair *pair, int send_dev, bool devhandle);
void rig_register(struct rig_pair *pair, int type);
/* All of it; CHECKs. */
void rig_pair_open(struct rig_pair *pair, int dev, int gpu, int type);
void rig_pair_close(struct rig_pair *pair);

int rig_isend(struct rig_pair *pair, size_t offset, size_t size, void **out);
int rig_irecv(struct rig_pair *pair, size_t offset, size_t size, void **out);
/* Tests until done. */
void rig_wait(void *request);
/* Tests both in turn until both are done; in the ring's order. */
void rig_wait_both(void *send, void *recv);
/* Tests so many times: whether it was done, and the last answer. */
bool rig_poll(void *request, int times, int *out_rc);
/* What unpacking the slot would write at to + offset; the sum of the lengths. */
size_t rig_unpack(struct rig_pair *pair, uint64_t receive, uint8_t *to);
uint64_t rig_count(struct rig_pair *pair, uint64_t receive);
/* A message there and back again: sent, received, unpacked, compared, consumed. */
void rig_message(struct rig_pair *pair, size_t size);
void rig_fill(uint8_t *at, size_t size, uint64_t seed);
/* The one violation so far is this one, count times. */
void rig_expect(const char *name, uint64_t count);
/* A child with a stream to it; the first handle goes over the stream. */
struct rig_far {
	pid_t pid;
	int fd;
};
void rig_far_start(struct rig_far *out, void (*run)(int fd, void *arg), void *arg);
int rig_far_end(struct rig_far *far); /* its status */
void rig_far_write(int fd, const void *bytes, size_t size);
void rig_far_read(int fd, void *bytes, size_t size);
/* How a forked child of run(arg) ends; its status as waitpid gives it. */
int rig_child(void (*run)(void *arg), void *arg);

#endif
