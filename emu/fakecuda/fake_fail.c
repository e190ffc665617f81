/* SPDX-License-Identifier: Apache-2.0 */
/* Counts every call and makes some fail: by the environment, by a test, by a capture. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>

#define RULES_MAX 32

static const char *const symbols[] = {
#define FAKE_SYMBOL(name, symbol, since, params) [FAKE_##name] = symbol,
	SYS_CUDA_LIST(FAKE_SYMBOL)
#undef FAKE_SYMBOL
		[FAKE_ctx_set] = "cuCtxSetCurrent",
	[FAKE_ctx_device] = "cuCtxGetDevice",
};

struct rule {
	enum fake_call call;
	uint64_t nth; /* of all calls; 0: every one */
	cuda_result result;
	int used;
};

static pthread_mutex_t rules_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static _Atomic int rules_any;
static _Atomic uint64_t counts[FAKE_CALLS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The call of a symbol; -1. "_v2" may be left out. */
static int call_of(const char *symbol, size_t len)
{
	for (int i = 0; i < FAKE_CALLS; i++) {
		if (strncmp(symbols[i], symbol, len))
			continue;
		if (!symbols[i][len] || !strcmp(symbols[i] + len, "_v2"))
			return i;
	}
	return -1;
}

static int rule_add(enum fake_call call, unsigned nth, cuda_result result)
{
	uint64_t now = atomic_load_explicit(&counts[call], memory_order_relaxed);
	int rc = -1;

	pthread_mutex_lock(&rules_lock);
	for (unsigned i = 0; i < RULES_MAX; i++) {
		struct rule *rule = &rules[i];

		if (!result) {
			if (rule->used && rule->call == call)
				rule->used = 0;
			rc = 0;
		} else if (!rule->used) {
			*rule = (struct rule){call, nth ? now + nth : 0, result, 1};
			atomic_store_explicit(&rules_any, 1, memory_order_release);
			rc = 0;
			break;
		}
	}
	pthread_mutex_unlock(&rules_lock);
	return rc;
}

static cuda_result rule_look(enum fake_call call, uint64_t number)
{
	cuda_result result = CUDA_OK;

	if (!atomic_load_explicit(&rules_any, memory_order_acquire))
		return CUDA_OK;
	pthread_mutex_lock(&rules_lock);
	for (unsigned i = 0; i < RULES_MAX && !result; i++) {
		struct rule *rule = &rules[i];

		if (!rule->used || rule->call != call || (rule->nth && rule->nth != number))
			continue;
		result = rule->result;
		if (rule->nth)
			rule->used = 0;
	}
	pthread_mutex_unlock(&rules_lock);
	return result;
}

void fake_fail_environment(void)
{
	const char *at = getenv("FAKECUDA_FAIL");

	while (at && *at) {
		size_t len = strcspn(at, ":,");
		unsigned nth;
		int result, call = call_of(at, len);

		if (call < 0 || sscanf(at + len, ":%u:%d", &nth, &result) != 2 ||
		    rule_add((enum fake_call)call, nth, result))
			fprintf(stderr, "fakecuda: FAKECUDA_FAIL: \"%s\" is not understood\n", at);
		at += strcspn(at, ",");
		at += *at == ',';
	}
}

cuda_result fake_enter(enum fake_call call)
{
	uint64_t number;

	fake_once();
	if (atomic_load_explicit(&fake.gone, memory_order_relaxed))
		return CUDA_ERR_DEINITIALIZED;
	if (atomic_load_explicit(&fake.forked, memory_order_relaxed))
		return CUDA_ERR_NOT_INITIALIZED;
	number = atomic_fetch_add_explicit(&counts[call], 1, memory_order_relaxed) + 1;
	if (call != FAKE_init && call != FAKE_driver_version && call != FAKE_error_name &&
	    call != FAKE_error_string &&
	    !atomic_load_explicit(&fake.initialised, memory_order_acquire))
		return CUDA_ERR_NOT_INITIALIZED;
	return rule_look(call, number);
}

cuda_result fake_enter_unsafe(enum fake_call call)
{
	cuda_result rc = fake_enter(call);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	if (fake.capture && *fake_thread_capture() != CUDA_CAPTURE_RELAXED) {
		fake.refused++;
		rc = CUDA_ERR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

int fake_dead(cuda_result rc)
{
	return rc == CUDA_ERR_DEINITIALIZED || rc == CUDA_ERR_NOT_INITIALIZED;
}

void fake_once(void)
{
	pthread_once(&once, fake_start);
}

uint64_t fakecuda_calls(const char *symbol)
{
	int call = call_of(symbol, strlen(symbol));

	return call < 0 ? 0 : atomic_load_explicit(&counts[call], memory_order_relaxed);
}

int fakecuda_fail_call(const char *symbol, unsigned nth, int result)
{
	int call = call_of(symbol, strlen(symbol));

	fake_once();
	return call < 0 ? -1 : rule_add((enum fake_call)call, nth, result);
}

unsigned fakecuda_capture(int on)
{
	unsigned refused;

	fake_once();
	pthread_mutex_lock(&fake.lock);
	fake.capture = on;
	refused = fake.refused;
	pthread_mutex_unlock(&fake.lock);
	return refused;
}

void fakecuda_deinit(int on)
{
	fake_once();
	atomic_store_explicit(&fake.gone, on, memory_order_relaxed);
}
