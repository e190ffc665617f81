/* SPDX-License-Identifier: Apache-2.0 */
/* What a test tells the fake ncclNet plugin, and what the plugin noticed. Found by dlsym as
 * fake_net in the loaded object. Words are atomic: the plugin's calls come from several threads. */
#ifndef TESTS_FAKE_NET_H
#define TESTS_FAKE_NET_H

#include <stdatomic.h>
#include <stdint.h>

#define FAKE_SIZES 16

struct fake_net {
	/* What it does. */
	atomic_int null_comms;	  /* so many calls of connect and accept give no comm */
	atomic_int blocks_accept; /* accept does not come back while it is set */
	atomic_int hangs_next;	  /* the next call of accept does not, while hangs is set */
	atomic_int hangs;
	atomic_int blocks_reg, blocks_close;
	atomic_int setup_rc; /* connect and accept answer it */
	atomic_int tells_size;
	atomic_int tells_more; /* added to the size that it tells */
	atomic_int null_every; /* each k-th post gives no request */
	atomic_int isend_rc, test_rc, close_rc;
	atomic_int reg_rc_at;	    /* the k-th regMr from now on answers 3 */
	atomic_int pipe;	    /* isend writes to a socket that is closed */
	atomic_int warns;	    /* so many lines of level WARN in isend */
	_Atomic(const char *) ends; /* isend says so, level WARN, and ends the process */
	_Atomic(int (*)(void)) current_gpu;
	atomic_int want_gpu; /* what it should be in setup calls */
	/* What it noticed. */
	atomic_int inits, listens, unlistens, sends_open, recvs_open, regs, deregs, in_accept;
	atomic_int violations;		/* a rule of the contract broken */
	atomic_int wrong_gpu, unmasked; /* calls with another device; with SIGPIPE not blocked */
	atomic_int last_tag, last_consumed;
	_Atomic uint64_t sizes[FAKE_SIZES]; /* of the first regMr calls */
};

#endif
