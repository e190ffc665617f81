/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of open descriptors: raised when the peers of this process may need more. */
#include "backend.hpp"

#include <algorithm>
#include <mutex>
#include <sys/resource.h>
#include <utility>

namespace tcpx_nixl
{
constexpr rlim_t PER_PEER =
	16 + 5;		       // the most channels that are chosen by themselves; dials, control
constexpr rlim_t OTHERS = 128; // of the application
constexpr rlim_t HIGHEST = 1 << 20; // programs loop over all numbers up to the limit

// Never lowers it. A process that keeps within its limit is left as it is.
void files_suffice(std::size_t peers, std::size_t channels)
{
	static std::mutex lock;
	static bool scarce_said;
	const rlim_t wanted = OTHERS + peers * (channels > 16 ? rlim_t(channels) + 5 : PER_PEER);
	std::lock_guard held(lock);
	rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return;
	const rlim_t before = limit.rlim_cur;
	limit.rlim_cur = std::max(before, std::min(limit.rlim_max, HIGHEST));
	if (limit.rlim_cur > before && !setrlimit(RLIMIT_NOFILE, &limit))
		say(TCPX_LOG_INFO,
		    "the limit of open files is raised from %llu to %llu: %zu agents may need %llu",
		    static_cast<unsigned long long>(before),
		    static_cast<unsigned long long>(limit.rlim_cur), peers,
		    static_cast<unsigned long long>(wanted));
	else
		limit.rlim_cur = before;
	if (limit.rlim_cur < wanted && !std::exchange(scarce_said, true))
		say(TCPX_LOG_WARN,
		    "%zu agents may need %llu open files, and %llu are allowed; next: raise the "
		    "hard "
		    "limit (ulimit -Hn, or the container's), or lower TCPX_CHANNELS",
		    peers, static_cast<unsigned long long>(wanted),
		    static_cast<unsigned long long>(limit.rlim_cur));
}

} // namespace tcpx_nixl
