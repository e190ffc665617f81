/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how the consumer reads loans. If both ends are in one process, it reads by memcpy. The
 * pid that the kernel reports for the socket and a table in this process prove that both ends are
 * in it. The loans are then in private memory, where no other process can write an address. Between
 * two processes that both have TCPX_ONE_COPY set, the consumer reads by process_vm_readv. Before
 * that it must find the producer's secret in the producer's memory. In all other cases nothing is
 * lent, and bytes go through the ring.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/law.h"
#include "base/list.h"
#include "net/local/local_priv.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/fork.h"

/* Identifies a channel within this process by its memfd and fields of its hello. */
struct direct_key {
	uint64_t device, inode;
	uint32_t channel, epoch;
	uint8_t nonce[LOCAL_NONCE_BYTES];
};

/* State that both ends share if they are in one process. */
struct local_direct {
	struct local_loans loans[2]; /* index: the producer's side (0: dialler) */
	struct list_node node; /* in table.waiting until the acceptor takes it; under table.lock */
	struct direct_key key;
	_Atomic uint32_t attached; /* 1 if the acceptor has found this struct: both ends may lend */
	int refs;		   /* number of ends that use this struct; under table.lock */
};

/* State of this process. A forked child initialises it anew. */
static struct {
	pthread_mutex_t lock;
	uint32_t generation;	  /* fork generation in which the table was initialised */
	int ready;		  /* 1 if the table is initialised */
	struct list_node waiting; /* list of local_direct that no acceptor has found yet */
	uint8_t *secret;	  /* page that begins with the secret; NULL if not made yet */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Initialises the table if needed and takes its lock. The first call in a forked child resets the
 * table. No other thread is in this function then, because only the control thread makes local
 * channels, and a child does not close those of its parent. */
static void table_lock(void)
{
	uint32_t generation = sys_fork_generation();

	if (table.ready && table.generation != generation) {
		pthread_mutex_init(&table.lock, NULL);
		table.ready = 0;
	}
	pthread_mutex_lock(&table.lock);
	if (table.ready)
		return;
	list_init(&table.waiting);
	table.generation = generation;
	table.secret = NULL;
	table.ready = 1;
}

/* Returns a page that begins with the secret of this process, or NULL if it cannot be made. The
 * first call makes the page. Forked children and core dumps do not get its content. */
static const uint8_t *own_secret_page(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *page;

	table_lock();
	if (!table.secret) {
		page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		if (page != MAP_FAILED &&
		    (madvise(page, bytes, MADV_WIPEONFORK) || sys_random(page, LOCAL_SECRET_BYTES)))
			munmap(page, bytes);
		else if (page != MAP_FAILED)
			table.secret = page;
		if (table.secret)
			madvise(page, bytes, MADV_DONTDUMP);
	}
	page = table.secret;
	pthread_mutex_unlock(&table.lock);
	return page;
}

/* Fills in what identifies a channel within this process (struct direct_key). Returns 0, or -1
 * if the memfd cannot be examined. */
static int direct_key_make(int memfd, const struct local_hello *hello, struct direct_key *out_key)
{
	struct stat st;

	if (fstat(memfd, &st))
		return -1;
	memset(out_key, 0, sizeof(*out_key));
	out_key->device = st.st_dev;
	out_key->inode = st.st_ino;
	out_key->channel = hello->channel;
	out_key->epoch = hello->epoch;
	memcpy(out_key->nonce, hello->nonce, sizeof(out_key->nonce));
	return 0;
}

/* Returns the pid of the process at the other end of the socket, or 0 if the pid is unknown. */
static int peer_pid(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ? 0 : peer.pid;
}

/* Sets up loans that are read by memcpy, because both ends are in this process. `direct` holds the
 * loans of both directions. */
static void use_direct(struct local_chan *chan, struct local_direct *direct)
{
	chan->copy = COPY_DIRECT;
	chan->direct = direct;
	chan->lend_to = &direct->loans[chan->side];
	chan->rx.borrow = &direct->loans[!chan->side];
	chan->lend_ok = &direct->attached;
}

static struct local_header *shared_header(const struct local_chan *chan)
{
	return (struct local_header *)chan->map->base;
}

/* Prepares loans between two processes if TCPX_ONE_COPY is set: publishes this process's secret and
 * its address. This side lends only after the peer has reported that it can read the secret at that
 * address. */
static void use_peer(struct local_chan *chan)
{
	struct local_offer *offer = &shared_header(chan)->offer[chan->side];
	const uint8_t *secret;

	if (chan->pid <= 0 || !config_bool(CONFIG_ONE_COPY))
		return;
	secret = own_secret_page();
	if (!secret)
		return;
	chan->copy = COPY_PEER;
	chan->lend_to = &shared_header(chan)->loans[chan->side];
	chan->lend_ok = &shared_header(chan)->offer[!chan->side].reads;
	chan->rx.probe_due = 1;
	offer->addr = (uintptr_t)secret;
	memcpy(offer->secret, secret, sizeof(offer->secret));
	atomic_store_explicit(&offer->ready, 1, memory_order_release);
}

void local_share_dial(struct local_chan *chan, int memfd, const struct local_hello *hello)
{
	struct local_direct *direct = NULL;

	chan->pid = peer_pid(chan->fd);
	if (chan->pid == getpid())
		direct = aligned_alloc(LOCAL_LINE, sizeof(*direct));
	if (!direct) {
		use_peer(chan);
		return;
	}
	memset(direct, 0, sizeof(*direct));
	if (direct_key_make(memfd, hello, &direct->key)) {
		free(direct);
		return;
	}
	direct->refs = 1;
	table_lock();
	list_push_back(&table.waiting, &direct->node);
	pthread_mutex_unlock(&table.lock);
	use_direct(chan, direct);
}

void local_share_accept(struct local_chan *chan, int memfd, const struct local_hello *hello)
{
	struct local_direct *found = NULL;
	struct direct_key key;
	struct list_node *pos;

	chan->pid = peer_pid(chan->fd);
	if (chan->pid == getpid() && !direct_key_make(memfd, hello, &key)) {
		table_lock();
		LIST_FOREACH(pos, &table.waiting) {
			struct local_direct *each = LIST_ENTRY(pos, struct local_direct, node);

			if (!memcmp(&each->key, &key, sizeof(key)))
				found = each;
		}
		if (found) {
			list_remove(&found->node);
			found->refs++;
		}
		pthread_mutex_unlock(&table.lock);
		explicit_bzero(&key, sizeof(key));
	}
	/* If the table does not have the dialler's struct, the dialler is in another process, uses
	 * another copy of the library in this process, or had no memory for the struct. */
	if (!found) {
		use_peer(chan);
		if (chan->rx.probe_due)
			local_share_probe(chan);
		return;
	}
	use_direct(chan, found);
	atomic_store_explicit(&found->attached, 1, memory_order_release);
}

void local_share_end(struct local_chan *chan)
{
	struct local_direct *direct = chan->direct;
	int last;

	if (!direct)
		return;
	table_lock();
	last = --direct->refs == 0;
	if (last)
		list_remove(&direct->node);
	pthread_mutex_unlock(&table.lock);
	if (last)
		free(direct);
}

/* Checks that the peer's memory at the offered address can be read and contains the peer's secret.
 * Returns 0, or an errno, which is ESRCH if the memory does not contain the secret. */
static int probe_peer_memory(struct local_chan *chan, const struct local_offer *offer)
{
	uint8_t seen[LOCAL_SECRET_BYTES];
	struct iovec here = {seen, sizeof(seen)}, there;

	chan->rx.peer_addr = offer->addr;
	memcpy(chan->rx.peer_secret, offer->secret, sizeof(chan->rx.peer_secret));
	there = (struct iovec){(void *)(uintptr_t)chan->rx.peer_addr, sizeof(seen)};
	if (process_vm_readv(chan->pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof(seen))
		return errno ? errno : EFAULT;
	return memcmp(seen, chan->rx.peer_secret, sizeof(seen)) ? ESRCH : 0;
}

void local_share_probe(struct local_chan *chan)
{
	static _Atomic int said;
	struct local_header *header = shared_header(chan);
	struct local_offer *offer = &header->offer[!chan->side];
	int err;

	if (!atomic_load_explicit(&offer->ready, memory_order_acquire))
		return;
	chan->rx.probe_due = 0;
	errno = 0;
	err = probe_peer_memory(chan, offer);
	if (!err) {
		chan->rx.borrow = &header->loans[!chan->side];
		atomic_store_explicit(&header->offer[chan->side].reads, 1, memory_order_release);
	} else if (!atomic_exchange(&said, 1)) {
		LOG_WARN("local: memory of process %d cannot be read (%s): copying twice instead "
			 "of once; next: see TCPX_ONE_COPY in tcpx(7)",
			 chan->pid, error_errno_text(err));
	}
}

int local_share_peer_gone(const struct local_chan *chan)
{
	struct pollfd poller = {.events = POLLIN};
	int gone;

	if (chan->copy == COPY_DIRECT || chan->pid <= 0)
		return 0; /* the peer is this process, or its pid is unknown */
#ifdef SYS_pidfd_open
	poller.fd = (int)syscall(SYS_pidfd_open, chan->pid, 0);
	if (poller.fd >= 0) {
		gone = poll(&poller, 1, 0) > 0;
		sys_fd_close(poller.fd);
		return gone;
	}
#endif
	/* Another process may have received the peer's pid after the peer ended. The peer then
	 * counts as alive, and memory that it could read only stays in use longer. */
	return kill(chan->pid, 0) && errno == ESRCH;
}

void local_reading_set(struct net_chan *base, int on)
{
	struct local_chan *chan = (struct local_chan *)base;

	atomic_fetch_add(&shared_header(chan)->holds[chan->side], on ? 1u : UINT32_MAX);
}

/* Whether the peer reads memory of this side. The counter is untrusted: a peer that never
 * decrements it keeps this side's memory in use while the peer's process lives, as with any
 * lease. */
int local_reading_peer(struct net_chan *base)
{
	struct local_chan *chan = (struct local_chan *)base;

	law_free("local_reading_peer");
	return atomic_load(&shared_header(chan)->holds[!chan->side]) &&
	       !local_share_peer_gone(chan);
}

const char *local_share_name(const struct local_chan *chan)
{
	if (!chan->lend_to || !atomic_load_explicit(chan->lend_ok, memory_order_relaxed))
		return "ring";
	return chan->copy == COPY_DIRECT ? "memcpy" : "one-copy";
}
