/* SPDX-License-Identifier: Apache-2.0 */
/* What a session tells of its peers and their channels. */
#include <string.h>

#include "conform.h"

/* One behind the other, and none behind the last. */
static void channels_are_told(struct env *env, const tcpx_peer_info *peer)
{
	tcpx_channel_info info = {.sz = sizeof(info)};
	uint32_t count[2] = {0}, before = 0, index = 0;

	for (; index < 1 + peer->channels + peer->message_channels; index++) {
		OK(tcpx_channel_query(env->session, env->peer, index, &info));
		CHECK(!index || info.channel > before);
		before = info.channel;
		CHECK(info.messages <= 1 && (info.nic[0] != 0) == info.messages);
		CHECK(info.messages || (!info.sends_posted && !info.posted && !info.relayed));
		CHECK(info.consumed <= info.posted && info.sends_done <= info.sends_posted);
		count[info.messages]++;
	}
	CHECK_EQ(count[0], 1 + peer->channels); /* the lane */
	CHECK_EQ(count[1], peer->message_channels);
	EXPECT(tcpx_channel_query(env->session, env->peer, index, &info), TCPX_ERR_NOT_FOUND);
	EXPECT(tcpx_channel_query(env->session, (tcpx_peer){~0ull}, 0, &info), TCPX_ERR_STALE);
	info.sz = 0;
	EXPECT(tcpx_channel_query(env->session, env->peer, 0, &info), TCPX_ERR_INVALID);
}

static void case_peer_query(struct env *env)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_peer peer;

	OK(tcpx_peer_query(env->session, env->peer, &info));
	CHECK_STR(info.name, "far");
	CHECK_EQ(info.state, TCPX_PEER_UP);
	CHECK_STR(info.auth, "secret");
	CHECK(info.channels >= 1 && info.chunk_bytes >= 4096);
	CHECK_STR(info.transport, config.transport);
	CHECK(strstr(info.address, conform_far()));
	OK(tcpx_peer_find(env->session, "far", &peer));
	CHECK_EQ(peer.id, env->peer.id);
	EXPECT(tcpx_peer_find(env->session, "nobody", &peer), TCPX_ERR_NOT_FOUND);
	channels_are_told(env, &info);
}

static void case_connect_channels(struct env *env)
{
	static const struct {
		uint32_t near, far, near_chunk, far_chunk, chunk;
	} rows[] = {{1, 1, 4096, 4096, 4096}, {4, 4, 16 * MIB, 16 * MIB, 16 * MIB},
		    {3, 1, 65536, 0, 65536},  {2, 3, 0, 65536, 65536},
		    {2, 2, 8192, MIB, 8192},  {16, 16, 0, 0, 512 * KIB}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct env_tune near = {.channels = rows[i].near,
					.chunk_bytes = rows[i].near_chunk};
		struct env_tune far = {.channels = rows[i].far, .chunk_bytes = rows[i].far_chunk};
		tcpx_segment segment = {.length = 5 * MIB + 13};
		tcpx_peer_info info = {.sz = sizeof(info)};
		tcpx_counters counters = {.sz = sizeof(counters)};
		struct buf buf;

		env_open_tuned(env, &near, &far);
		buf_make(&buf, segment.length, 3);
		buf_fill(&buf, 0, buf.size, i, 0);
		segment.local = near_register(env, &buf, 0);
		segment.remote =
			far_buf(env, 1, segment.length, TCPX_RIGHT_WRITE | TCPX_RIGHT_READ, 5);
		OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
		CHECK_EQ(far_pattern(env, 1, 0, segment.length, i, 0), -1);
		buf_poison(&buf);
		OK(near_run(env, TCPX_OP_READ, &segment, 1, NULL));
		CHECK_EQ(buf_check(&buf, 0, buf.size, i, 0), -1);
		CHECK(buf_slack_whole(&buf) && far_slack(env, 1));
		OK(tcpx_peer_query(env->session, env->peer, &info));
		CHECK(info.channels >= 1 && info.channels <= rows[i].near);
		CHECK_EQ(info.chunk_bytes, rows[i].chunk);
		OK(tcpx_session_counters(env->session, &counters)); /* the READ's are the peer's */
		/* A message has a size of its own, and mapped memory needs no chunk. */
		CHECK(conform_plugin() || conform_direct() ||
		      counters.rx_chunks >= segment.length / rows[i].chunk);
		CHECK_EQ(info.message_channels > 0, conform_plugin());
		env_close(env);
		buf_free(&buf);
	}
}

const struct case_row cases_query[] = {
	{"connect_channels", case_connect_channels, CASE_BARE},
	{"peer_query", case_peer_query, 0},
	{0},
};
