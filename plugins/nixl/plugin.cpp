/* SPDX-License-Identifier: Apache-2.0 */
/* The two entry points, what each status means to NIXL, and lines on stderr. */
#include "backend.hpp"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <mutex>
#include <sched.h>

namespace tcpx_nixl
{

// The rest is NIXL_ERR_BACKEND.
static constexpr std::pair<tcpx_status, nixl_status_t> meanings[] = {
	{TCPX_OK, NIXL_SUCCESS},
	{TCPX_IN_PROGRESS, NIXL_IN_PROG},
	{TCPX_ERR_INVALID, NIXL_ERR_INVALID_PARAM},
	{TCPX_ERR_RANGE, NIXL_ERR_INVALID_PARAM},
	{TCPX_ERR_LIMIT, NIXL_ERR_INVALID_PARAM},
	{TCPX_ERR_STALE, NIXL_ERR_INVALID_PARAM}, // memory that was freed, or registered anew
	{TCPX_ERR_NOT_FOUND, NIXL_ERR_NOT_FOUND},
	{TCPX_ERR_VERSION, NIXL_ERR_MISMATCH},
	{TCPX_ERR_UNSUPPORTED, NIXL_ERR_NOT_SUPPORTED},
	{TCPX_ERR_CANCELLED, NIXL_ERR_CANCELED},
	{TCPX_ERR_REMOTE_KEY, NIXL_ERR_NOT_ALLOWED},
	{TCPX_ERR_REMOTE_RIGHTS, NIXL_ERR_NOT_ALLOWED},
	{TCPX_ERR_REMOTE_RANGE, NIXL_ERR_NOT_ALLOWED},
	{TCPX_ERR_TIMED_OUT, NIXL_ERR_REMOTE_DISCONNECT}, // its connect
};

nixl_status_t status_of(tcpx_status from)
{
	if (from <= TCPX_ERR_PEER_CLOSED && from > TCPX_ERR_SESSION_CLOSED)
		return NIXL_ERR_REMOTE_DISCONNECT;
	for (const auto &[ours, theirs] : meanings)
		if (ours == from)
			return theirs;
	return NIXL_ERR_BACKEND;
}

void say(tcpx_log_level level, const char *format, ...)
{
	char line[512] = "nixl: ";
	const std::size_t begin = std::strlen(line);
	va_list args;

	va_start(args, format);
	std::vsnprintf(line + begin, sizeof(line) - begin, format, args);
	va_end(args);
	tcpx_log_write(level, line);
}

void must(tcpx_status got)
{
	const tcpx_error *error = tcpx_last_error();

	if (got != TCPX_OK)
		throw refusal(status_of(got), std::string(error->what) + "; next: " + error->next);
}

void must(bool good, nixl_status_t otherwise, const char *why)
{
	if (!good)
		throw refusal(otherwise, why);
}

void say_last(tcpx_log_level level, const char *doing)
{
	const tcpx_error *error = tcpx_last_error();

	say(level, "%s: %s; next: %s", doing, error->what, error->next);
}

namespace
{
// Calls that fail because a link ended: an engine repeats them by the hundred. The first of the
// same words is logged, the others are counted for 10 s. Nothing here allocates or throws.
class repeats
{
	using clock = std::chrono::steady_clock;
	static constexpr auto WINDOW = std::chrono::seconds(10);
	struct entry {
		char words[400] = "";
		clock::time_point since = {};
		unsigned long long more = 0;
	};
	std::mutex lock_;
	entry entries_[64]; // with more peers that ended, lines come sooner than after 10 s
	std::size_t oldest_ = 0;

	static void log_count(entry &it)
	{
		if (it.more)
			say(TCPX_LOG_INFO, "%s (%llu more times)", it.words, it.more);
		it.more = 0;
	}

      public:
	void add(const char *doing, const char *why)
	{
		const auto now = clock::now();
		char words[sizeof(entry::words)];

		std::snprintf(words, sizeof(words), "%s: %s", doing, why);
		std::lock_guard held(lock_);
		for (entry &each : entries_) {
			if (std::strcmp(each.words, words) != 0)
				continue;
			each.more++;
			if (now - each.since >= WINDOW) {
				each.since = now;
				log_count(each);
			}
			return;
		}
		entry &next = entries_[oldest_++ % std::size(entries_)];
		log_count(next);
		say(TCPX_LOG_INFO, "%s", words);
		std::memcpy(next.words, words, sizeof(words));
		next.since = now;
	}

	void end()
	{
		std::lock_guard held(lock_);

		for (entry &each : entries_) {
			log_count(each);
			*each.words = '\0'; // a later backend logs its first one
		}
	}
};
repeats ended;
} // namespace

void say_ended(const char *doing, const char *why)
{
	ended.add(doing, why);
}

void say_ended_rest()
{
	ended.end();
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

void looked_in_vain()
{
	static thread_local unsigned looks;

	if (++looks % 16 == 0)
		sched_yield();
}

nixl_mem_list_t memories_usable()
{
	nixl_mem_list_t all;

	guarded("memories", [&] {
		std::uint32_t count;

		all.push_back(DRAM_SEG);
		if (tcpx_memory_devices(TCPX_MEM_CUDA, &count) == TCPX_OK && count)
			all.push_back(VRAM_SEG);
	});
	return all;
}

static nixl_b_params_t options()
{
	nixl_b_params_t all;

	guarded("options", [&] { all = settings_list(is_alias()); });
	return all;
}

} // namespace tcpx_nixl

// NIXL pairs them as it likes: a look at the options is a pair, too.
extern "C" {
[[gnu::visibility("default")]] nixlBackendPlugin *nixl_plugin_init()
{
	using namespace tcpx_nixl;
	static const auto destroy = [](nixlBackendEngine *it) { delete it; };
	static const auto name = [] { return "TCPX"; };
	static nixlBackendPlugin plugin = {
		NIXL_PLUGIN_API_VERSION, create, destroy, name, tcpx_version, options,
		memories_usable,
	};

	guarded("NIXL_LOG_LEVEL", adopt_level);
	return &plugin;
}

[[gnu::visibility("default")]] void nixl_plugin_fini()
{
}
}
