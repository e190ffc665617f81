/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: a list is checked and encoded once, posted often, looked at cheaply, and ended for
 * sure. */
#include "backend.hpp"

namespace tcpx_nixl
{
constexpr std::int64_t QUIET_NS = 100'000'000; // decision 16: so long a cancel may take

bool region::holds(const nixlBasicDesc &piece) const
{
	return piece.len && piece.addr >= addr && piece.len <= len &&
	       piece.addr - addr <= len - piece.len && piece.devId == device;
}

nixl_status_t backend::import(region &theirs) const
{
	agent &owner = *theirs.owner;
	tcpx_status got;

	if (theirs.link == owner.link)
		return NIXL_SUCCESS;
	if (theirs.link) // of a link that ended
		tcpx_region_deregister(session_, theirs.handle, 0);
	got = tcpx_region_import(session_, owner.peer, theirs.token.data(), theirs.token.size(),
				 &theirs.handle);
	if (got != TCPX_OK)
		return got == TCPX_ERR_STALE ? NIXL_ERR_REMOTE_DISCONNECT : status_of(got);
	theirs.link = owner.link;
	return NIXL_SUCCESS;
}

// Everything that may be wrong with the lists is found here; the request belongs to the link.
nixl_status_t backend::make(transfer &request, const nixl_meta_dlist_t &local,
			    const nixl_meta_dlist_t &remote) const
{
	agent &owner = *request.owner;
	std::vector<tcpx_segment> segments(std::size_t(local.descCount()));
	const auto is_ours = [](const region *it) { return it && !it->owner; };
	tcpx_request made;
	tcpx_status got;

	for (std::size_t i = 0; i < segments.size(); i++) {
		const nixlMetaDesc &near = local[i], &far = remote[i];
		auto *ours = static_cast<region *>(near.metadataP);
		auto *theirs = static_cast<region *>(far.metadataP);

		if (!is_ours(ours) || !theirs || theirs->owner.get() != &owner ||
		    near.len != far.len || !ours->holds(near) || !theirs->holds(far) ||
		    ours->type != local.getType() || theirs->type != remote.getType()) {
			say(TCPX_LOG_WARN,
			    "descriptor %zu: outside its registered memory, or of "
			    "another length or agent",
			    i);
			return NIXL_ERR_INVALID_PARAM;
		}
		if (nixl_status_t bad = import(*theirs); bad != NIXL_SUCCESS)
			return bad;
		segments[i] = {ours->handle, near.addr - ours->addr, theirs->handle,
			       far.addr - theirs->addr, near.len};
	}
	got = tcpx_request_prepare(session_, owner.peer,
				   request.op == NIXL_READ ? TCPX_OP_READ : TCPX_OP_WRITE,
				   segments.data(), segments.size(), nullptr, &made);
	if (got == TCPX_ERR_STALE)
		return NIXL_ERR_REMOTE_DISCONNECT;
	if (got != TCPX_OK) {
		say_last(TCPX_LOG_WARN, "preparing a transfer");
		return status_of(got);
	}
	if (request.link)
		tcpx_request_release(session_, request.request);
	request.request = made;
	request.link = owner.link;
	request.notified = false;
	return NIXL_SUCCESS;
}

nixl_status_t backend::prepXfer(const nixl_xfer_op_t &op, const nixl_meta_dlist_t &local,
				const nixl_meta_dlist_t &remote, const std::string &name,
				nixlBackendReqH *&out, const nixl_opt_b_args_t *) const
{
	return guarded("prepXfer", [&] {
		std::shared_ptr<agent> owner = find(name);
		auto request = std::make_unique<transfer>();
		nixl_status_t got;

		if (!owner)
			return NIXL_ERR_NOT_FOUND;
		if (!local.descCount() || local.descCount() != remote.descCount())
			return NIXL_ERR_INVALID_PARAM;
		request->owner = owner;
		request->op = op;
		std::lock_guard held(owner->lock);
		got = join(*owner);
		if (got == NIXL_SUCCESS)
			got = make(*request, local, remote);
		if (got == NIXL_SUCCESS)
			out = request.release();
		return got;
	});
}

nixl_status_t backend::postXfer(const nixl_xfer_op_t &, const nixl_meta_dlist_t &local,
				const nixl_meta_dlist_t &remote, const std::string &,
				nixlBackendReqH *&inout, const nixl_opt_b_args_t *args) const
{
	return guarded("postXfer", [&] {
		auto *request = static_cast<transfer *>(inout);
		const bool notify = args && args->hasNotif;
		tcpx_status got = TCPX_OK;

		if (!request)
			return NIXL_ERR_INVALID_PARAM;
		for (bool again = false;; again = true) {
			if (notify || request->notified)
				got = tcpx_request_notify(session_, request->request,
							  notify ? args->notifMsg.data() : nullptr,
							  notify ? args->notifMsg.size() : 0,
							  notify);
			request->notified = notify;
			if (got == TCPX_OK)
				got = tcpx_request_post(session_, request->request);
			if (got != TCPX_ERR_PEER_CLOSED || again)
				break;
			// The other side ended the link and lives: it takes another one.
			std::lock_guard held(request->owner->lock);
			if (join(*request->owner) != NIXL_SUCCESS ||
			    make(*request, local, remote) != NIXL_SUCCESS)
				break;
			got = TCPX_OK;
		}
		if (got == TCPX_ERR_STATE)
			return NIXL_ERR_REPOST_ACTIVE;
		if (got != TCPX_OK) {
			say_last(TCPX_LOG_INFO, "posting a transfer");
			return status_of(got);
		}
		request->told = request->refused = false;
		return checkXfer(request); // a small one may be through
	});
}

nixl_status_t backend::checkXfer(nixlBackendReqH *it) const
{
	auto *request = static_cast<transfer *>(it);
	tcpx_error error;
	tcpx_status got;

	if (!request)
		return NIXL_ERR_INVALID_PARAM;
	got = tcpx_request_test(session_, request->request, nullptr);
	if (got == TCPX_IN_PROGRESS)
		looked_in_vain();
	if (got == TCPX_ERR_STATE)
		return NIXL_ERR_NOT_POSTED;
	if (got < TCPX_OK && !request->told &&
	    tcpx_request_error(session_, request->request, &error) == TCPX_OK) {
		say(TCPX_LOG_INFO, "a transfer ended: %s", error.what);
		request->told = true;
	}
	return status_of(got);
}

// The first call never waits. The second one is the last that NIXL makes.
nixl_status_t backend::releaseReqH(nixlBackendReqH *it) const
{
	return guarded("releaseReqH", [&] {
		std::unique_ptr<transfer> request(static_cast<transfer *>(it));

		if (!request)
			return NIXL_SUCCESS;
		if (tcpx_request_test(session_, request->request, nullptr) == TCPX_IN_PROGRESS) {
			tcpx_request_cancel(session_, request->request);
			if (tcpx_request_wait(session_, request->request,
					      request->refused ? QUIET_NS : 0,
					      nullptr) == TCPX_IN_PROGRESS) {
				if (!request->refused) {
					request.release()->refused = true; // still NIXL's
					return NIXL_ERR_REPOST_ACTIVE;
				}
				say(TCPX_LOG_WARN,
				    "a released transfer is not quiet yet: its memory "
				    "stays in use until deregisterMem says otherwise");
			}
		}
		tcpx_request_release(session_, request->request);
		return NIXL_SUCCESS;
	});
}

} // namespace tcpx_nixl
