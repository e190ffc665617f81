/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications on their way from the session to NIXL. */
#pragma once

#include "backend.hpp"

namespace tcpx_nixl
{
class notes
{
	static constexpr std::size_t MOST = 1024; // of one look: others wait for NIXL's lock

	std::mutex lock_;
	tcpx_notification note_ = {}; // taken, and no memory to hand it on
	std::uint64_t foreign_ = 0;   // dropped

	// Whom NIXL knows by that name has another key, and lives: this is not from him.
	bool foreign(const std::shared_ptr<agent> &known) const
	{
		if (!known || known->key == note_.key)
			return false;
		std::lock_guard held(known->lock);
		return !known->gone();
	}

	void count_foreign()
	{
		if (!foreign_++)
			say(TCPX_LOG_WARN,
			    "a notification under the name '%s' comes from another session than "
			    "the one that was loaded by that name: it is dropped, as others like "
			    "it will be (said once)",
			    note_.name);
	}

      public:
	notes()
	{
		note_.sz = sizeof(note_);
	}

	~notes()
	{
		if (foreign_ > 1)
			say(TCPX_LOG_WARN, "%llu notifications under others' names were dropped",
			    static_cast<unsigned long long>(foreign_));
	}

	// What came, to the end of the list, which is full or has it all: TCPX_IN_PROGRESS.
	// known(name): the agent that NIXL has loaded by that name, or null.
	template <typename lookup>
	tcpx_status take(tcpx_session *session, notif_list_t &out, const lookup &known)
	{
		std::lock_guard held(lock_);
		tcpx_status got = TCPX_OK;

		try {
			while (out.size() < MOST) {
				if (!note_.opaque)
					got = tcpx_notify_take(session, 0, &note_);
				if (got != TCPX_OK)
					return got;
				if (foreign(known(note_.name)))
					count_foreign();
				else
					out.emplace_back(
						note_.name,
						std::string(static_cast<const char *>(note_.data),
							    note_.bytes));
				tcpx_notification_release(session, &note_);
			}
		} catch (const std::bad_alloc &) {
			if (out.empty())
				throw; // the next look finds it
		}
		return got;
	}
};
} // namespace tcpx_nixl
