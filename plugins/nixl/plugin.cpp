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

status status_of(tcpx_status from)
{
	if (from <= TCPX_ERR_PEER_CLOSED && from > TCPX_ERR_SESSION_CLOSED)
		return status::REMOTE_DISCONNECT;
	switch (from) {
	case TCPX_OK:
		return status::SUCCESS;
	case TCPX_IN_PROGRESS:
		return status::IN_PROGRESS;
	case TCPX_ERR_INVALID:
	case TCPX_ERR_RANGE:
	case TCPX_ERR_LIMIT:
		return status::INVALID_PARAM;
	case TCPX_ERR_NOT_FOUND:
		return status::NOT_FOUND;
	case TCPX_ERR_VERSION:
		return status::MISMATCH;
	case TCPX_ERR_UNSUPPORTED:
		return status::NOT_SUPPORTED;
	case TCPX_ERR_CANCELLED:
		return status::CANCELED;
	case TCPX_ERR_REMOTE_KEY:
	case TCPX_ERR_REMOTE_RIGHTS:
	case TCPX_ERR_REMOTE_RANGE:
		return status::NOT_ALLOWED;
	default:
		return status::BACKEND;
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

void say_last(tcpx_log_level level, const char *doing)
{
	const tcpx_error *error = tcpx_last_error();

	say(level, "%s: %s; next: %s", doing, error->what, error->next);
}

// NIXL's level counts where ours was not asked for.
static void adopt_level()
{
	static const std::pair<const char *, const char *> levels[] = {
		{"TRACE", "trace"}, {"DEBUG", "debug"}, {"INFO", "info"},
		{"WARN", "warn"},   {"ERROR", "error"}, {"FATAL", "error"},
	};
	const char *wish = std::getenv("NIXL_LOG_LEVEL");

	if (!wish || std::getenv("TCPX_LOG"))
		return;
	for (const auto &[theirs, name] : levels)
		if (!strcasecmp(wish, theirs) && tcpx_option_set("TCPX_LOG", name) != TCPX_OK)
			say_last(TCPX_LOG_WARN, "NIXL_LOG_LEVEL");
}

// Under the name of UCX, for tools that know no other.
static bool is_alias()
{
	Dl_info info;

	return dladdr(reinterpret_cast<void *>(&is_alias), &info) && info.dli_fname &&
	       std::strstr(info.dli_fname, "libplugin_UCX.so");
}

static nixl_abi::engine *create(const nixl_abi::create_args *args)
{
	try {
		return new backend(*args);
	} catch (...) {
		say(TCPX_LOG_ERROR, "no memory for a backend");
		return nullptr;
	}
}

static void destroy(nixl_abi::engine *engine)
{
	delete engine;
}

static nixl_abi::params options()
{
	return settings_list(is_alias());
}

void looked_in_vain()
{
	static thread_local unsigned looks;

	if (++looks % 16 == 0)
		sched_yield();
}

std::vector<nixl_abi::memory> memories_usable()
{
	std::vector<nixl_abi::memory> all = {nixl_abi::memory::DRAM};
	std::uint32_t count;

	if (tcpx_memory_devices(TCPX_MEM_CUDA, &count) == TCPX_OK && count)
		all.push_back(nixl_abi::memory::VRAM);
	return all;
}

static const char *name()
{
	return "TCPX";
}

} // namespace tcpx_nixl

// NIXL pairs them as it likes: a look at the options is a pair, too.
extern "C" {
[[gnu::visibility("default")]] nixl_abi::plugin *nixl_plugin_init()
{
	static nixl_abi::plugin plugin = {
		nixl_abi::API_VERSION,
		tcpx_nixl::create,
		tcpx_nixl::destroy,
		tcpx_nixl::name,
		tcpx_version,
		tcpx_nixl::options,
		tcpx_nixl::memories_usable,
	};

	tcpx_nixl::adopt_level();
	return &plugin;
}

[[gnu::visibility("default")]] void nixl_plugin_fini()
{
}
}
