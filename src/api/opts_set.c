/* SPDX-License-Identifier: Apache-2.0 */
/* Sets options by name: an option of a session in a tcpx_session_opts, any other option for the
 * whole process. */
#include <string.h>

#include "api/checks.h"
#include "base/bytes.h"
#include "base/config.h"

/* How the value of an option is stored in tcpx_session_opts. ORDINAL: as the value plus 1, because
 * 0 means not set. FLAG: as a flag that is on if the option is on. FLAG_OFF: as a flag that is on
 * if the option is off. */
enum field_type { FIELD_U32, FIELD_U64, FIELD_TEXT, FIELD_ORDINAL, FIELD_FLAG, FIELD_FLAG_OFF };

static const struct field {
	const char *name;
	enum field_type type;
	size_t offset; /* offset of the field in tcpx_session_opts */
	uint64_t flag; /* for FLAG and FLAG_OFF: bit of tcpx_session_opts.flags */
} fields[] = {
#define FIELD(name, type, member)                                                                  \
	{                                                                                          \
		"TCPX_" name, FIELD_##type, offsetof(tcpx_session_opts, member), 0                 \
	}
	FIELD("BIND", TEXT, bind),
	FIELD("ADVERTISE", TEXT, advertise),
	FIELD("KEY_FILE", TEXT, key_file),
	FIELD("IDENTITY_FILE", TEXT, identity_file),
	FIELD("CHANNELS", U32, channels),
	FIELD("CHUNK_BYTES", U32, chunk_bytes),
	FIELD("WORKERS", U32, workers),
	FIELD("SILENT_MS", U32, silent_ms),
	FIELD("STOPPED_MS", U32, stopped_ms),
	FIELD("GOODBYE_MS", U32, goodbye_ms),
	FIELD("MAX_PEERS", U32, max_peers),
	FIELD("NOTIFY_BUDGET_BYTES", U64, notify_budget_bytes),
	FIELD("MEMORY_BUDGET_BYTES", U64, memory_budget_bytes),
	FIELD("INLINE_BYTES", U32, inline_bytes),
	FIELD("PLUGIN_CHANNELS", U32, plugin_channels),
	FIELD("PLUGIN", TEXT, plugin),
	FIELD("NIC", TEXT, nic),
	FIELD("UNPACK_IMPL", TEXT, unpack),
	FIELD("LOCAL_DEVICE", ORDINAL, message_gpu),
#undef FIELD
	{"TCPX_LOCAL", FIELD_FLAG_OFF, 0, TCPX_SESSION_NO_LOCAL},
	{"TCPX_BUSY_POLL", FIELD_FLAG, 0, TCPX_SESSION_BUSY_POLL},
	{"TCPX_STRICT_CANCEL", FIELD_FLAG, 0, TCPX_SESSION_STRICT_CANCEL},
};

/* Returns the field for an option, or NULL if the option applies to the whole process. */
static const struct field *opts_field(const char *name)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

/* Sets an option, which is stored as a flag, to `on`, regardless of the environment. A flag is on
 * if its bit in opts->flags is set, and off if its bit in opts->without is set. With FLAG_OFF the
 * flag becomes the opposite of `on`. */
static void opts_set_flag(tcpx_session_opts *opts, const struct field *field, bool on)
{
	uint64_t *where = on == (field->type == FIELD_FLAG) ? &opts->flags : &opts->without;

	opts->flags &= ~field->flag;
	opts->without &= ~field->flag;
	*where |= field->flag;
}

tcpx_status tcpx_session_opts_set(tcpx_session_opts *opts, const char *name, const char *value)
{
	const struct field *field;
	tcpx_status status;
	uint64_t parsed;
	char *at;

	API_NOT_NULL(opts);
	API_NOT_NULL(name);
	API_NOT_NULL(value);
	field = opts_field(name);
	if (!field)
		return config_set(name, value);
	status = config_check(name, value, &parsed);
	if (status != TCPX_OK)
		return status;
	at = (char *)opts + field->offset;
	switch (field->type) {
	case FIELD_U32:
		*(uint32_t *)(void *)at = (uint32_t)parsed;
		break;
	case FIELD_ORDINAL:
		*(uint32_t *)(void *)at = (uint32_t)parsed + 1;
		break;
	case FIELD_U64:
		*(uint64_t *)(void *)at = parsed;
		break;
	case FIELD_TEXT:
		*(const char **)(void *)at = value;
		break;
	default:
		opts_set_flag(opts, field, parsed != 0);
	}
	return TCPX_OK;
}
