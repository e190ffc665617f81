/* SPDX-License-Identifier: Apache-2.0 */
/* Links and transfers: a list is checked and encoded once, posted often, looked at cheaply, and
 * ended for sure. */
#include "backend.hpp"

#include <cstdio>

namespace tcpx_nixl
{
constexpr std::int64_t CANCEL_NS = 100'000'000; // decision 16: so long a cancel may take
constexpr std::int64_t CONNECT_NS = 5'000'000'000;

// The library dials once, and again with the next use after the link ended; never after a restart.
void agent::join()
{
	tcpx_error why;

	must(!dropped, NIXL_ERR_REMOTE_DISCONNECT, "the agent was disconnected here");
	if (!peer.id)
		return dial();
	why.sz = sizeof(why);
	must(tcpx_peer_error(session, peer, &why));
	must(why.status != TCPX_ERR_VERSION, NIXL_ERR_MISMATCH, why.what);
	must(why.status != TCPX_ERR_PEER_RESTARTED, NIXL_ERR_REMOTE_DISCONNECT, why.what);
}

void agent::dial()
{
	tcpx_connect_opts opts = {};
	tcpx_peer fresh;

	opts.sz = sizeof(opts);
	opts.timeout_ns = CONNECT_NS;
	opts.nonblocking = 1;
	opts.reconnect = 1;
	must(tcpx_session_connect(session, info.data(), info.size(), &opts, &fresh));
	link += fresh.id != peer.id; // the same one while it is dialled again
	peer = fresh;
}

bool agent::gone() const
{
	tcpx_error why;

	why.sz = sizeof(why);
	return peer.id &&
	       (tcpx_peer_error(session, peer, &why) != TCPX_OK || why.status != TCPX_OK);
}

remote::~remote()
{
	if (link)
		tcpx_region_deregister(owner->session, handle, 0);
}

bool region::holds(const nixlBasicDesc &piece) const
{
	return piece.len && piece.addr >= addr && piece.len <= len &&
	       piece.addr - addr <= len - piece.len && piece.devId == device;
}

// Without a link the token is looked at, no more.
void remote::import()
{
	tcpx_status got;

	if (link && link == owner->link)
		return;
	if (link) // of a link that ended
		tcpx_region_deregister(owner->session, handle, 0);
	link = 0;
	got = tcpx_region_import(owner->session, owner->peer, token.data(), token.size(), &handle);
	must(owner->peer.id || got != TCPX_ERR_STALE ? got : TCPX_OK);
	link = owner->link;
}

transfer::~transfer()
{
	if (prepared)
		tcpx_request_release(owner->session, request);
}

namespace
{
// Of one list: neighbours mostly are of the same object, and then it is not looked for again.
class lookup
{
	const metas &live_;
	const nixlBackendMD *last_ = nullptr;
	const region *found_ = nullptr;

      public:
	explicit lookup(const metas &live) : live_(live)
	{
	}
	const region *operator()(const nixlBackendMD *meta)
	{
		if (meta != last_) {
			auto it = live_.find(meta);

			found_ = it == live_.end() ? nullptr : it->second.get();
			last_ = meta;
		}
		return found_;
	}
};
} // namespace

// Everything that may be wrong with the lists is found here.
void transfer::check(const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote,
		     const metas &live)
{
	lookup near_of(live), far_of(live);

	must(local.descCount() && local.descCount() == remote.descCount(), NIXL_ERR_INVALID_PARAM,
	     "the lists are empty, or of other lengths");
	for (int i = 0; i < local.descCount(); i++) {
		const nixlMetaDesc &near = local[i], &far = remote[i];
		const region *ours = near_of(near.metadataP), *theirs = far_of(far.metadataP);

		if (!ours || ours->theirs || !theirs || !theirs->theirs ||
		    theirs->theirs->owner != owner || near.len != far.len || !ours->holds(near) ||
		    !theirs->holds(far) || ours->type != local.getType() ||
		    theirs->type != remote.getType())
			throw refusal(NIXL_ERR_INVALID_PARAM,
				      "descriptor " + std::to_string(i) +
					      ": outside its registered memory, of memory "
					      "that is not registered or loaded any more, or "
					      "of another length or agent");
		if (runs.empty() || runs.back().ours.id != ours->handle.id ||
		    runs.back().theirs != theirs->theirs)
			runs.push_back({0, ours->handle, ours->addr, theirs->theirs, theirs->addr});
		runs.back().count++;
	}
	count = std::size_t(local.descCount());
}

// The request serves every link that the peer's handle leads to.
void transfer::make(const nixl_meta_dlist_t &local, const nixl_meta_dlist_t &remote)
{
	std::vector<tcpx_segment> segments;

	segments.reserve(count);
	for (const run &each : runs) {
		each.theirs->import();
		for (std::size_t left = each.count; left; left--) {
			const int at = int(segments.size());

			segments.push_back({each.ours, local[at].addr - each.near,
					    each.theirs->handle, remote[at].addr - each.far,
					    local[at].len});
		}
	}
	must(tcpx_request_prepare(owner->session, owner->peer,
				  op == NIXL_READ ? TCPX_OP_READ : TCPX_OP_WRITE, segments.data(),
				  segments.size(), nullptr, &request));
	prepared = true;
}

nixl_status_t transfer::post(const nixl_opt_b_args_t *args)
{
	const bool notify = args && args->hasNotif;
	tcpx_status got = TCPX_OK;

	if (notify || notified)
		got = tcpx_request_notify(owner->session, request,
					  notify ? args->notifMsg.data() : nullptr,
					  notify ? args->notifMsg.size() : 0, notify);
	if (got == TCPX_OK) {
		notified = notify;
		got = tcpx_request_post(owner->session, request);
	}
	must(got != TCPX_ERR_STATE, NIXL_ERR_REPOST_ACTIVE, "it is still under way");
	must(got);
	told = refused = false;
	return look(); // a small one may be through
}

nixl_status_t transfer::look()
{
	tcpx_status got = tcpx_request_test(owner->session, request, nullptr);
	tcpx_error error;

	error.sz = sizeof(error);
	if (got == TCPX_IN_PROGRESS)
		looked_in_vain();
	if (got == TCPX_ERR_STATE)
		return NIXL_ERR_NOT_POSTED;
	if (got < TCPX_OK && !told &&
	    tcpx_request_error(owner->session, request, &error) == TCPX_OK) {
		char why[sizeof(error.what) + sizeof(error.next) + 10];

		std::snprintf(why, sizeof(why), "%s; next: %s", error.what, error.next);
		// The link's end is in the log, a cancelled one was wanted.
		if (status_of(got) == NIXL_ERR_REMOTE_DISCONNECT || got == TCPX_ERR_CANCELLED)
			say_ended("a transfer ended", why);
		else
			say(TCPX_LOG_ERROR, "a transfer ended: %s", why);
		told = true;
	}
	return status_of(got);
}

// The first call never waits. The second one is the last that NIXL makes.
bool transfer::quiet()
{
	if (tcpx_request_test(owner->session, request, nullptr) != TCPX_IN_PROGRESS)
		return true;
	tcpx_request_cancel(owner->session, request);
	if (tcpx_request_wait(owner->session, request, refused ? CANCEL_NS : 0, nullptr) !=
	    TCPX_IN_PROGRESS)
		return true;
	if (refused)
		say(TCPX_LOG_WARN, "a released transfer is not quiet yet: its memory stays in use "
				   "until deregisterMem says otherwise");
	return std::exchange(refused, true);
}

} // namespace tcpx_nixl
