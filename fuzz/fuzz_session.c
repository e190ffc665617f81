/* SPDX-License-Identifier: Apache-2.0 */
/* An open session against a peer that has proven itself and then says what it likes, while requests
 * of the session's own come and go and an honest peer is served beside it. The input is a program
 * of small commands; most make frames that are almost right, so that they get deep. A connection
 * serves many inputs: what is found is replayed by the file session-history, which holds all of
 * them as one. */
#include "session_frames.h"

#include <dirent.h>
#include <signal.h>

#define INPUTS_PER_CONNECTION 64
#define INPUTS_PER_FRIEND 256
#define DESCRIPTORS_MAX 256
#define HISTORY_MAX (1u << 20)

struct victim session_victim;
struct raw session_raw = {.secret = victim_secret, .secret_bytes = sizeof(victim_secret)};
static struct {
	uint8_t bytes[HISTORY_MAX];
	size_t count;
} history;
static uint64_t inputs, connections, mute; /* mute: did not acknowledge an input in time */

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static struct sigaction old_abort;

static void history_save(void)
{
	FILE *file = fopen("session-history", "wb");

	if (!file)
		return;
	(void)!fwrite(history.bytes, 1, history.count, file);
	fclose(file);
}

/* A broken promise, told to whoever waits for it after us. */
static void on_abort(int sig)
{
	history_save();
	sigaction(sig, &old_abort, NULL);
	raise(sig);
}

static void history_add(const uint8_t *data, size_t size)
{
	if (size > HISTORY_MAX - history.count)
		size = HISTORY_MAX - history.count;
	memcpy(history.bytes + history.count, data, size);
	history.count += size;
}

/* ---- the session's own doings ---- */

static void act(struct wire_cursor *in)
{
	uint8_t how = wire_get_u8(in);
	uint32_t slot = how >> 5;

	switch (how & 7) {
	case 0:
		victim_cancel(&session_victim, slot);
		break;
	case 1:
		victim_release(&session_victim, slot);
		break;
	case 2:
		victim_notify(&session_victim, wire_get_u16(in));
		break;
	case 3:
		if (how == 3)
			victim_reregister(&session_victim);
		break;
	default:
		victim_post(&session_victim, slot, (enum tcpx_op)(1 + wire_get_u8(in) % 5),
			    wire_get_u16(in), wire_get_u16(in));
		break;
	}
}

static void command(struct wire_cursor *in)
{
	switch (wire_get_u8(in) % 20) {
	case 0:
	case 1:
	case 2:
		act(in);
		break;
	case 3:
	case 4:
		session_send_data(in);
		break;
	case 5:
		session_send_table(in, false);
		break;
	case 6:
		session_send_table(in, true);
		break;
	case 7:
	case 8:
		session_send_rdata(in);
		break;
	case 9:
	case 10:
		session_send_message(in);
		break;
	case 11:
	case 12:
		session_send_answer(in);
		break;
	case 13:
		session_send_note(in);
		break;
	case 14:
		session_send_told(in);
		break;
	case 15:
		session_send_anything(in);
		break;
	case 16:
		session_send_control(in);
		break;
	case 17:
		session_change_channel(in);
		break;
	case 18:
		session_raw.stingy = wire_get_u8(in) & 1;
		raw_drain(&session_raw);
		break;
	default:
		if (wire_get_u8(in) % 8 == 7)
			session_send_bytes(in);
		else
			raw_settle(&session_raw);
		break;
	}
}

static uint32_t descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t count = 0;

	FUZZ_CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void part(void)
{
	raw_close(&session_raw);
	victim_part(&session_victim);
	history.count = 0;
	if (++connections % 64 == 0)
		FUZZ_CHECK(descriptors() < DESCRIPTORS_MAX);
}

static void statistics(void)
{
	fprintf(stderr, "session: %llu inputs, %llu connections, %llu mute\n",
		(unsigned long long)inputs, (unsigned long long)connections,
		(unsigned long long)mute);
}

static void meet(void)
{
	static bool opened;

	if (!opened) {
		opened = true;
		atexit(statistics);
		sigaction(SIGABRT, &(struct sigaction){.sa_handler = on_abort}, &old_abort);
		if (__sanitizer_set_death_callback)
			__sanitizer_set_death_callback(history_save);
		victim_open(&session_victim);
	}
	raw_connect(&session_raw, session_victim.port);
	victim_accept(&session_victim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_cursor in = wire_cursor_of(data, size);

	if (!session_raw.alive)
		meet();
	history_add(data, size);
	while (wire_left(&in) && session_raw.alive) {
		command(&in);
		raw_drain(&session_raw);
	}
	if (session_raw.alive && !raw_settle(&session_raw)) {
		mute++;
		raw_close(&session_raw);
	}
	victim_poll(&session_victim);
	victim_take_notifications(&session_victim);
	victim_check(&session_victim, ++inputs % 64 == 0);
	if (!session_raw.alive || inputs % INPUTS_PER_CONNECTION == 0)
		part();
	if (inputs % INPUTS_PER_FRIEND == 0)
		victim_serve_friend(&session_victim);
	return 0;
}
