/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: one primary a device, created ones, a stack a thread. */
#include "fake.h"

#include <stdlib.h>
#include <time.h>

#define SETTLE_S 30 /* a guard against hangs */

static _Thread_local cuda_ctx stack[FAKE_STACK_MAX];
static _Thread_local unsigned depth;
static _Thread_local int capture_mode;

int *fake_thread_capture(void)
{
	return &capture_mode;
}

cuda_ctx fake_thread_ctx(void)
{
	return depth ? stack[depth - 1] : NULL;
}

/* One of ours, alive or not. */
static int ctx_known(const struct cuda_ctx_st *ctx)
{
	const struct cuda_ctx_st *at;

	for (int i = 0; i < fake.devices; i++) {
		if (ctx == &fake.device[i].primary)
			return 1;
	}
	for (at = fake.contexts; at && at != ctx; at = at->next)
		;
	return at != NULL;
}

int fake_ctx_valid(cuda_ctx ctx)
{
	return ctx && ctx_known(ctx) && ctx->refs;
}

cuda_result fake_ctx_state(const struct cuda_ctx_st *ctx)
{
	if (!ctx)
		return CUDA_ERR_INVALID_CONTEXT;
	return ctx->refs ? ctx->sticky : CUDA_ERR_CONTEXT_IS_DESTROYED;
}

cuda_result fake_ctx_here(cuda_ctx *out)
{
	cuda_ctx ctx = fake_thread_ctx();

	*out = ctx;
	return fake_ctx_state(ctx);
}

cuda_result fake_ctx_leaving(cuda_result *inout_late)
{
	cuda_ctx ctx = fake_thread_ctx();

	if (!ctx)
		return CUDA_ERR_INVALID_CONTEXT;
	if (!*inout_late)
		*inout_late = fake_ctx_state(ctx);
	return CUDA_OK;
}

cuda_result fake_ctx_retain(cuda_ctx *out, cuda_device device)
{
	FAKE_ENTER(ctx_retain);
	if (device < 0 || device >= fake.devices)
		return CUDA_ERR_INVALID_DEVICE;
	pthread_mutex_lock(&fake.lock);
	fake.device[device].primary.refs++;
	fake.live.contexts++;
	*out = &fake.device[device].primary;
	pthread_mutex_unlock(&fake.lock);
	return CUDA_OK;
}

cuda_result fake_ctx_release(cuda_device device)
{
	cuda_result late, rc = CUDA_OK;

	FAKE_ENTER_LATE(ctx_release, &late);
	if (device < 0 || device >= fake.devices)
		return CUDA_ERR_INVALID_DEVICE;
	pthread_mutex_lock(&fake.lock);
	if (!fake.device[device].primary.refs) {
		rc = CUDA_ERR_INVALID_CONTEXT;
	} else {
		fake_gone(&fake.live.contexts);
		if (!--fake.device[device].primary.refs) {
			fake.device[device].primary.sticky = CUDA_OK;
			fake.device[device].primary.peers = 0;
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_ctx_push(cuda_ctx ctx)
{
	cuda_result rc = CUDA_OK;

	FAKE_ENTER(ctx_push);
	pthread_mutex_lock(&fake.lock);
	if (!ctx || !ctx_known(ctx))
		rc = CUDA_ERR_INVALID_CONTEXT;
	else if (!ctx->refs)
		rc = CUDA_ERR_CONTEXT_IS_DESTROYED;
	else if (depth == FAKE_STACK_MAX)
		rc = CUDA_ERR_INVALID_VALUE;
	else
		stack[depth++] = ctx;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_ctx_pop(cuda_ctx *out)
{
	cuda_result late;

	FAKE_ENTER_LATE(ctx_pop, &late);
	if (!depth)
		return CUDA_ERR_INVALID_CONTEXT;
	depth--;
	if (out)
		*out = stack[depth];
	return late;
}

cuda_result fake_ctx_current(cuda_ctx *out)
{
	FAKE_ENTER(ctx_current);
	*out = fake_thread_ctx();
	return CUDA_OK;
}

cuda_result fake_ctx_device(cuda_device *out)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(ctx_device);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc)
		*out = ctx->device;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_ctx_set(cuda_ctx ctx)
{
	cuda_result rc = CUDA_OK;

	FAKE_ENTER(ctx_set);
	pthread_mutex_lock(&fake.lock);
	if (ctx && !fake_ctx_valid(ctx))
		rc = CUDA_ERR_INVALID_CONTEXT;
	else if (!ctx)
		depth -= depth > 0;
	else if (depth)
		stack[depth - 1] = ctx;
	else
		stack[depth++] = ctx;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_ctx_create(cuda_ctx *out, unsigned flags, cuda_device device)
{
	cuda_ctx ctx;

	(void)flags;
	FAKE_ENTER(ctx_create);
	if (device < 0 || device >= fake.devices)
		return CUDA_ERR_INVALID_DEVICE;
	if (depth == FAKE_STACK_MAX)
		return CUDA_ERR_INVALID_VALUE;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return CUDA_ERR_OUT_OF_MEMORY;
	ctx->device = device;
	ctx->refs = 1;
	pthread_mutex_lock(&fake.lock);
	ctx->next = fake.contexts;
	fake.contexts = ctx;
	fake.live.contexts++;
	pthread_mutex_unlock(&fake.lock);
	stack[depth++] = ctx;
	*out = ctx;
	return CUDA_OK;
}

/* Its struct stays, so that an old handle is known for one. */
cuda_result fake_ctx_destroy(cuda_ctx ctx)
{
	cuda_result late, rc = CUDA_OK;

	FAKE_ENTER_LATE(ctx_destroy, &late);
	pthread_mutex_lock(&fake.lock);
	if (!fake_ctx_valid(ctx) || ctx->primary) {
		rc = CUDA_ERR_INVALID_CONTEXT;
	} else {
		ctx->refs = 0;
		fake_gone(&fake.live.contexts);
		if (depth && stack[depth - 1] == ctx)
			depth--;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_ctx_priorities(int *out_least, int *out_greatest)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(ctx_priorities);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	pthread_mutex_unlock(&fake.lock);
	if (rc)
		return rc;
	if (out_least)
		*out_least = 0;
	if (out_greatest)
		*out_greatest = -5;
	return CUDA_OK;
}

cuda_result fake_ctx_enable_peer(cuda_ctx peer, unsigned flags)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(ctx_enable_peer);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc && (flags || !fake_ctx_valid(peer)))
		rc = flags ? CUDA_ERR_INVALID_VALUE : CUDA_ERR_INVALID_CONTEXT;
	if (!rc && (fake.no_peer || peer->device == ctx->device))
		rc = fake.no_peer ? CUDA_ERR_PEER_ACCESS_UNSUPPORTED : CUDA_ERR_INVALID_DEVICE;
	if (!rc && ctx->peers & 1u << peer->device)
		rc = CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED;
	if (!rc)
		ctx->peers |= 1u << peer->device;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_capture_mode(int *inout_mode)
{
	int mode = capture_mode;

	FAKE_ENTER(capture_mode);
	if (*inout_mode < CUDA_CAPTURE_GLOBAL || *inout_mode > CUDA_CAPTURE_RELAXED)
		return CUDA_ERR_INVALID_VALUE;
	capture_mode = *inout_mode;
	*inout_mode = mode;
	return CUDA_OK;
}

void fakecuda_break_device(unsigned ordinal, int result)
{
	fake_once();
	if (ordinal >= (unsigned)fake.devices)
		return;
	pthread_mutex_lock(&fake.lock);
	fake.device[ordinal].primary.sticky = result;
	fake_streams_wake();
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
}

void fake_gone(unsigned *live)
{
	--*live;
	pthread_cond_broadcast(&fake.changed);
}

static unsigned sum_of(const struct fakecuda_live *live)
{
	return live->contexts + live->memory + live->host + live->registrations + live->streams +
	       live->events + live->modules + live->ipc + live->pools + live->vmm;
}

unsigned fakecuda_live(struct fakecuda_live *out)
{
	struct fakecuda_live live;

	pthread_mutex_lock(&fake.lock);
	live = fake.live;
	pthread_mutex_unlock(&fake.lock);
	if (out)
		*out = live;
	return sum_of(&live);
}

unsigned fakecuda_settle(unsigned live)
{
	struct timespec until;
	unsigned left;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SETTLE_S;
	pthread_mutex_lock(&fake.lock);
	while (sum_of(&fake.live) > live)
		if (pthread_cond_timedwait(&fake.changed, &fake.lock, &until))
			break;
	left = sum_of(&fake.live);
	pthread_mutex_unlock(&fake.lock);
	return left;
}
