/* SPDX-License-Identifier: Apache-2.0 */
/* Every object that NIXL has of an engine: it hands one out twice, and again when it is gone. */
#pragma once

#include <shared_mutex>

#include "backend.hpp"

namespace tcpx_nixl
{
// A pointer that is not in here is none of ours and is not looked at; what is in use is held.
class objects
{
	mutable std::shared_mutex lock_;
	metas metas_;
	std::unordered_map<const nixlBackendReqH *, std::shared_ptr<transfer>> requests_;

      public:
	// It is NIXL's from here on.
	nixlBackendMD *give(std::shared_ptr<region> made)
	{
		std::lock_guard held(lock_);
		nixlBackendMD *out = made.get();

		metas_.emplace(out, std::move(made));
		return out;
	}

	nixlBackendReqH *give(std::shared_ptr<transfer> made)
	{
		std::lock_guard held(lock_);
		nixlBackendReqH *out = made.get();

		requests_.emplace(out, std::move(made));
		return out;
	}

	std::shared_ptr<region> registered(const nixlBackendMD *meta) const
	{
		std::shared_lock held(lock_);
		auto it = metas_.find(meta);

		must(it != metas_.end() && !it->second->theirs, NIXL_ERR_INVALID_PARAM,
		     "no registration of this agent, or not any more: a list that names memory "
		     "twice is refused");
		return it->second;
	}

	std::shared_ptr<transfer> request(const nixlBackendReqH *handle) const
	{
		std::shared_lock held(lock_);
		auto it = requests_.find(handle);

		return it == requests_.end() ? nullptr : it->second;
	}

	void check(transfer &made, const nixl_meta_dlist_t &local,
		   const nixl_meta_dlist_t &remote) const
	{
		std::shared_lock held(lock_);

		made.check(local, remote, metas_);
	}

	// Not NIXL's any more. NULL: it was not, or is of the other kind.
	std::shared_ptr<region> take(const nixlBackendMD *meta, bool loaded)
	{
		std::lock_guard held(lock_);
		auto it = metas_.find(meta);
		std::shared_ptr<region> out;

		if (it == metas_.end() || bool(it->second->theirs) != loaded)
			return out;
		out = it->second;
		metas_.erase(it);
		return out;
	}

	bool take(const std::shared_ptr<transfer> &ours)
	{
		std::lock_guard held(lock_);

		return requests_.erase(ours.get());
	}

	// What NIXL forgot; nobody calls any more.
	void clear()
	{
		requests_.clear();
		metas_.clear();
	}
};
} // namespace tcpx_nixl
