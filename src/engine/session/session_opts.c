/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the options of a session from the caller, or else from the environment, or else the
 * defaults. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/session/calls.h"
#include "net/net_wrapper.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/crypto.h"
#include "sys/iface.h"
#include "sys/sock.h"

/* Sets *out to the value of a numeric option: the caller's value `given`, or if `given` is 0, the
 * value of the environment or the default. Returns ERR_INVALID if the result is outside min..max,
 * unless the result is 0. */
static tcpx_status option_number(const char *name, uint64_t given, enum config_id id, uint64_t min,
				 uint64_t max, uint64_t *out)
{
	char low[BYTES_TEXT_MAX], high[BYTES_TEXT_MAX];

	if (!given)
		given = config_u64(id);
	if (given && (given < min || given > max)) {
		error_set(TCPX_ERR_INVALID, 0, "option %s = %llu is outside %llu..%llu", name,
			  (unsigned long long)given, (unsigned long long)min,
			  (unsigned long long)max);
		return error_next("choose %s..%s, or 0 for the default",
				  bytes_compact(min, low, sizeof(low)),
				  bytes_compact(max, high, sizeof(high)));
	}
	*out = given;
	return TCPX_OK;
}

/* Takes the numeric options. Returns ERR_INVALID if one is outside its range. */
static tcpx_status options_take_numbers(struct engine_session *session,
					const tcpx_session_opts *opts)
{
	uint64_t channels = 0, chunk = 0, workers = 0, silent = 0, stopped = 0;
	uint64_t notify = 0, memory = 0, inline_bytes = 0, goodbye = 0, peers = 0;
	tcpx_status status;

	if ((status = option_number("channels", opts->channels, CONFIG_CHANNELS, 1, 64,
				    &channels)) ||
	    (status = option_number("chunk_bytes", opts->chunk_bytes, CONFIG_CHUNK_BYTES,
				    ENGINE_CHUNK_MIN, ENGINE_CHUNK_MAX, &chunk)) ||
	    (status = option_number("workers", opts->workers, CONFIG_WORKERS, 1, 64, &workers)) ||
	    (status = option_number("silent_ms", opts->silent_ms, CONFIG_SILENT_MS, 1000, 60000,
				    &silent)) ||
	    (status = option_number("stopped_ms", opts->stopped_ms, CONFIG_STOPPED_MS, 3000, 600000,
				    &stopped)) ||
	    (status = option_number("goodbye_ms", opts->goodbye_ms, CONFIG_GOODBYE_MS, 1, 10000,
				    &goodbye)) ||
	    (status = option_number("max_peers", opts->max_peers, CONFIG_MAX_PEERS, 1, 1u << 20,
				    &peers)) ||
	    (status = option_number("notify_budget_bytes", opts->notify_budget_bytes,
				    CONFIG_NOTIFY_BUDGET, 4096, 64ull << 30, &notify)) ||
	    (status = option_number("memory_budget_bytes", opts->memory_budget_bytes,
				    CONFIG_MEMORY_BUDGET, 1u << 20, 16ull << 40, &memory)) ||
	    (status = option_number("inline_bytes", opts->inline_bytes, CONFIG_INLINE_BYTES, 1,
				    8192, &inline_bytes)))
		return status;
	/* 64 is accepted, but a link opens at most 63 bulk channels, because a mask of channels
	 * has 64 bits and the priority channel has one of them. */
	session->tuning.channels =
		channels < CORE_CHANNELS_MAX ? (uint32_t)channels : CORE_CHANNELS_MAX - 1;
	/* 0 if neither the caller, the environment nor config_set() sets a value, so that the
	 * peer's value is used */
	session->tuning.chunk_bytes =
		opts->chunk_bytes || config_value(CONFIG_CHUNK_BYTES)->source != CONFIG_DEFAULT
			? (uint32_t)chunk
			: 0;
	session->tuning.silent_ns = (int64_t)silent * CLOCK_MS_NS;
	session->tuning.stopped_ns = (int64_t)stopped * CLOCK_MS_NS;
	session->tuning.goodbye_ns = (int64_t)goodbye * CLOCK_MS_NS;
	session->inbound.most = (uint32_t)peers;
	account_open(session, memory, notify, (uint32_t)peers);
	session->tuning.inline_bytes = (uint32_t)inline_bytes;
	return TCPX_OK;
}

static tcpx_status options_take_name(struct engine_session *session, const char *name)
{
	static _Atomic unsigned number_of;
	char host[HOST_NAME_MAX + 1] = "host";
	uint32_t salt;

	if (name && *name) {
		if (strlen(name) > TCPX_NAME_MAX)
			return error_set(TCPX_ERR_INVALID, 0,
					 "session name has %zu bytes, at most %d are allowed",
					 strlen(name), TCPX_NAME_MAX);
		memcpy(session->name, name, strlen(name) + 1);
		return TCPX_OK;
	}
	/* Containers may have the same host name and process id, so a random number makes the name
	 * unique. tcpx_peer_find() looks peers up by name. */
	if (sys_random(&salt, sizeof(salt)) != TCPX_OK)
		return error_last()->status;
	gethostname(host, sizeof(host) - 1);
	snprintf(session->name, sizeof(session->name), "%.32s-%d-%u-%08x", host, (int)getpid(),
		 atomic_fetch_add(&number_of, 1), salt);
	return TCPX_OK;
}

static tcpx_status options_take_rails(struct engine_session *session, const char *bind)
{
	tcpx_status status;
	unsigned count = 0;

	if (!bind || !*bind)
		bind = config_text(CONFIG_BIND);
	if (!*bind)
		return sys_addr_parse("127.0.0.1", 0, &session->rails.at[session->rails.count++]);
	if (!strcmp(bind, "auto") && session->flags & TCPX_SESSION_INFO_ONLY &&
	    !sys_crypto_available()) {
		LOG_WARN("session '%s' listens on loopback only: without OpenSSL's libcrypto it "
			 "cannot verify peers on other hosts; next: install libcrypto",
			 session->name);
		bind = "127.0.0.1";
	}
	status = sys_iface_expand(bind, session->rails.at, ENGINE_RAILS_MAX, &count);
	session->rails.count = count;
	session->rails.named = true;
	session->rails.any_source =
		strchr(bind, '^') || !strncmp(bind, "auto", 4) || strstr(bind, ",auto");
	return status == TCPX_OK ? TCPX_OK : session_option_error(CONFIG_BIND, bind);
}

static tcpx_status options_take_keys(struct engine_session *session, const char *path)
{
	if (!path || !*path)
		path = config_text(CONFIG_KEY_FILE);
	return *path ? ctl_keys_load(path, &session->keys) : TCPX_OK;
}

static tcpx_status options_take_identity(struct engine_session *session, const char *path)
{
	if (!path || !*path)
		path = config_text(CONFIG_IDENTITY_FILE);
	return *path ? ctl_identity_load(path, &session->identity.own) : TCPX_OK;
}

/* Warns once in a process if the kernel refuses the congestion control that TCPX_CONGESTION names.
 * Connections then keep the system's. */
static void options_check_congestion(void)
{
	static _Atomic bool checked;
	const char *name = config_text(CONFIG_CONGESTION);
	int err;

	if (!*name || atomic_exchange(&checked, true))
		return;
	err = sys_sock_congestion_check(name);
	if (err == ENOENT || err == EPERM)
		LOG_WARN("TCPX_CONGESTION=%s: %s; using the system's; next: choose one that "
			 "'sysctl net.ipv4.tcp_%s_congestion_control' lists",
			 name,
			 err == ENOENT ? "the kernel has no congestion control of that name"
				       : "only privileged processes may use it",
			 err == ENOENT ? "available" : "allowed");
}

static uint64_t options_environment_flags(void)
{
	uint64_t flags = config_bool(CONFIG_LOCAL) ? 0 : TCPX_SESSION_NO_LOCAL;

	if (config_bool(CONFIG_BUSY_POLL))
		flags |= TCPX_SESSION_BUSY_POLL;
	if (config_bool(CONFIG_STRICT_CANCEL))
		flags |= TCPX_SESSION_STRICT_CANCEL;
	return flags;
}

tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts)
{
	const char *advertise = opts->advertise;
	tcpx_status status;

	session->flags = opts->flags | (options_environment_flags() & ~opts->without);
	if ((opts->flags | opts->without) & ~(uint64_t)(TCPX_SESSION_NO_ACCEPT * 2 - 1))
		return error_set(TCPX_ERR_INVALID, 0,
				 "unknown bit in the options flags = 0x%llx, without = 0x%llx",
				 (unsigned long long)opts->flags,
				 (unsigned long long)opts->without);
	if ((session->flags & TCPX_SESSION_NO_LOCAL) && (session->flags & TCPX_SESSION_LOCAL_ONLY))
		return error_set(
			TCPX_ERR_INVALID, 0,
			"flags NO_LOCAL (or TCPX_LOCAL=0) and LOCAL_ONLY exclude each other");
	if ((session->flags & TCPX_SESSION_INFO_ONLY) && (session->flags & TCPX_SESSION_INSECURE))
		return error_set(TCPX_ERR_INVALID, 0,
				 "flags INFO_ONLY and INSECURE exclude each other");
	status = net_wrapper ? net_wrapper->spec(&session->filters) : TCPX_OK;
	if (status != TCPX_OK)
		return status;
	if (!advertise || !*advertise)
		advertise = config_text(CONFIG_ADVERTISE);
	if (*advertise) {
		session->advertised.option = strdup(advertise);
		if (!session->advertised.option)
			return error_set(TCPX_ERR_NO_MEMORY, 0,
					 "no memory for the option advertise");
	}
	options_check_congestion();
	status = options_take_numbers(session, opts);
	if (status == TCPX_OK)
		status = options_take_name(session, opts->name);
	if (status == TCPX_OK)
		status = options_take_rails(session, opts->bind);
	if (status == TCPX_OK)
		status = options_take_keys(session, opts->key_file);
	if (status == TCPX_OK)
		status = options_take_identity(session, opts->identity_file);
	return status;
}
