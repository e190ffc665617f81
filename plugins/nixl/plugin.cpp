/* SPDX-License-Identifier: Apache-2.0 */
/* The two entry points, what each status means to NIXL, and lines on stderr. */
#include "backend.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>

namespace tcpx_nixl
{

nixl_status_t status_of(tcpx_status from)
{
	if ((from <= TCPX_ERR_PEER_CLOSED && from > TCPX_ERR_SESSION_CLOSED) ||
	    from == TCPX_ERR_STALE) // a handle of its
		return NIXL_ERR_REMOTE_DISCONNECT;
	switch (from) {
	case TCPX_OK:
		return NIXL_SUCCESS;
	case TCPX_IN_PROGRESS:
		return NIXL_IN_PROG;
	case TCPX_ERR_INVALID:
	case TCPX_ERR_RANGE:
	case TCPX_ERR_LIMIT:
		return NIXL_ERR_INVALID_PARAM;
	case TCPX_ERR_NOT_FOUND:
		return NIXL_ERR_NOT_FOUND;
	case TCPX_ERR_VERSION:
		return NIXL_ERR_MISMATCH;
	case TCPX_ERR_UNSUPPORTED:
		return NIXL_ERR_NOT_SUPPORTED;
	case TCPX_ERR_CANCELLED:
		return NIXL_ERR_CANCELED;
	case TCPX_ERR_REMOTE_KEY:
	case TCPX_ERR_REMOTE_RIGHTS:
	case TCPX_ERR_REMOTE_RANGE:
		return NIXL_ERR_NOT_ALLOWED;
	default:
		return NIXL_ERR_BACKEND;
	}
}

void say(tcpx_log_level level, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	std::vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	tcpx_log_write(level, (std::string("nixl: ") + line).c_str());
}

static std::string last_error()
{
	const tcpx_error *error = tcpx_last_error();

	return std::string(error->what) + "; next: " + error->next;
}

void must(tcpx_status got)
{
	if (got != TCPX_OK)
		throw refusal(status_of(got), last_error());
}

void must(bool good, nixl_status_t otherwise, const char *why)
{
	if (!good)
		throw refusal(otherwise, why);
}

void say_last(tcpx_log_level level, const char *doing)
{
	say(level, "%s: %s", doing, last_error().c_str());
}

// NIXL's level counts where ours was not asked for.
static void adopt_level()
{
	const char *wish = std::getenv("NIXL_LOG_LEVEL");
	std::string level = wish ? converted(wish, std::tolower) : "";

	if (!wish || std::getenv("TCPX_LOG"))
		return;
	if (tcpx_option_set("TCPX_LOG", level == "fatal" ? "error" : level.c_str()) != TCPX_OK)
		say_last(TCPX_LOG_WARN, "NIXL_LOG_LEVEL");
}

// Under the name of UCX, for tools that know no other.
static bool is_alias()
{
	Dl_info info;

	return dladdr(reinterpret_cast<void *>(&is_alias), &info) && info.dli_fname &&
	       std::strstr(info.dli_fname, "libplugin_UCX.so");
}

static nixlBackendEngine *create(const nixlBackendInitParams *args)
{
	try {
		return backend_new(*args);
	} catch (...) {
		say(TCPX_LOG_ERROR, "no memory for a backend");
		return nullptr;
	}
}

static void destroy(nixlBackendEngine *engine)
{
	delete engine;
}

static nixl_b_params_t options()
{
	return settings_list(is_alias());
}

void looked_in_vain()
{
	static thread_local unsigned looks;

	if (++looks % 16 == 0)
		sched_yield();
}

nixl_mem_list_t memories_usable()
{
	std::uint32_t count;

	if (tcpx_memory_devices(TCPX_MEM_CUDA, &count) == TCPX_OK && count)
		return {DRAM_SEG, VRAM_SEG};
	return {DRAM_SEG};
}

static const char *name()
{
	return "TCPX";
}

} // namespace tcpx_nixl

// NIXL pairs them as it likes: a look at the options is a pair, too.
extern "C" {
[[gnu::visibility("default")]] nixlBackendPlugin *nixl_plugin_init()
{
	using namespace tcpx_nixl;
	static nixlBackendPlugin plugin = {
		NIXL_PLUGIN_API_VERSION, create, destroy, name, tcpx_version, options,
		memories_usable,
	};

	adopt_level();
	return &plugin;
}

[[gnu::visibility("default")]] void nixl_plugin_fini()
{
}
}
