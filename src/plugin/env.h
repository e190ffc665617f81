/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that a TCPX plugin needs. The plugin reads its variables once, in init, and may
 * hang or end the process if one is wrong. So a session checks them before init. The functions
 * below change no variable: tools export the recipe (variables with good values) for their own
 * process. In an application's process, problems are reported with the lines that fix them. The
 * caller describes the machine in struct gpudirect_place.
 */
#ifndef PLUGIN_ENV_H
#define PLUGIN_ENV_H

#include <stddef.h>
#include <stdint.h>

#define GPUDIRECT_SOCKETS_MAX 8 /* most sockets of a comm: sockets per thread times threads */
/* Most fragments in which a message may arrive. With 2048 the plugin ends the process. */
#define GPUDIRECT_FRAGMENTS_MAX 1900
#define GPUDIRECT_NICS_MAX 16	/* most NICs for which the plugin has room */
#define GPUDIRECT_VALUE_MAX 512 /* size of a buffer for a variable's value */
#define GPUDIRECT_PROBLEMS_MAX 32
#define GPUDIRECT_CHUNK 524288 /* bytes of a message if gpudirect_place does not say */

/* The form of a variable's value. */
enum gpudirect_form {
	GPUDIRECT_NUMBER,   /* min to max; for other values the plugin silently uses the default */
	GPUDIRECT_NICS,	    /* "a,b" name prefixes; "=a,b" exact names; "^..." all but these */
	GPUDIRECT_BINDINGS, /* CPUs of each NIC: "eth1:8-21,112-125;eth2:..." */
	GPUDIRECT_TEXT,
	GPUDIRECT_UNREAD, /* found in scripts, but not read by the plugin */
};

/* A variable of the plugin. */
struct gpudirect_var {
	const char *name;
	enum gpudirect_form form;
	uint64_t min, max;
	const char *without; /* value that the plugin uses if the variable is not set */
	const char *must;    /* the only value that works; NULL if several work */
	const char *meaning; /* what the variable does, and the effect of a wrong value */
};

const struct gpudirect_var *gpudirect_var(unsigned index); /* NULL past the last variable */

#define GPUDIRECT_NUMA_NONE -1	 /* sysfs says -1: the NIC has no NUMA node */
#define GPUDIRECT_NUMA_UNTOLD -2 /* sysfs has no file numa_node for the NIC */

/* A NIC to use. */
struct gpudirect_nic {
	const char *name;
	/* CPUs of its NUMA node, "0-51,104-155"; "" if none of the node are known; NULL if the node
	 * is not known */
	const char *cpus;
	int numa;     /* number of its NUMA node, GPUDIRECT_NUMA_NONE or GPUDIRECT_NUMA_UNTOLD */
	unsigned mtu; /* 0 if not known */
};

/* What the environment depends on: the machine and the session's settings. */
struct gpudirect_place {
	const struct gpudirect_nic *nics;
	unsigned nnics;
	const char *const *ifaces; /* names of the machine's network interfaces that are up */
	unsigned nifaces;
	unsigned nnodes;	/* NUMA nodes of the machine */
	size_t message_bytes;	/* size of the session's messages; 0: GPUDIRECT_CHUNK */
	const char *rxdm_error; /* why RxDM did not answer; NULL if it did or was not asked */
};

/* Returns the value of an environment variable, or NULL if it is not set. Tests use a function that
 * reads a table. */
typedef const char *(*gpudirect_get_fn)(void *arg, const char *name);

struct gpudirect_problem {
	int fatal; /* 1: the plugin would hang, fail or end the process; 0: a hint */
	char what[256];
	char fix[GPUDIRECT_VALUE_MAX + 64]; /* the line that fixes it, such as "unset NAME" */
};

/* Finds problems of the environment, and writes at most `max` of them, fatal ones first. Returns
 * the number of problems found, at most GPUDIRECT_PROBLEMS_MAX. It may exceed `max`. */
unsigned gpudirect_env_check(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			     struct gpudirect_problem *out_problems, unsigned max);

/* Returns the folder in which the plugin looks for RxDM's sockets. */
const char *gpudirect_env_prefix(gpudirect_get_fn get, void *arg);

/* A variable of the recipe. */
struct gpudirect_setting {
	const char *name;
	char value[GPUDIRECT_VALUE_MAX];
	int users;	 /* 1 if `value` is the one that the user has set */
	const char *why; /* reason for the value, or "set by you" */
};

/* Writes the recipe: the variables with values that work on this machine, and all other known
 * variables that the user has set. A value that the user has set is kept. Returns how many
 * variables it wrote, at most `max`. */
unsigned gpudirect_env_recipe(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			      struct gpudirect_setting *out_settings, unsigned max);
#define GPUDIRECT_SETTINGS_MAX 24

/* Writes "export NAME=VALUE", quoted for a shell where needed. Returns buf. */
char *gpudirect_env_line(const char *name, const char *value, char *buf, size_t cap);

/* Returns the largest number of fragments in which a message may arrive if packets have `mtu`
 * bytes. Returns 0 if the MTU is unknown (0) or too small for the headers. */
size_t gpudirect_env_fragments(size_t message_bytes, unsigned mtu);

/* The functions below are helpers of env_*.c; the engine uses gpudirect_env_number(), too. */

/* Writes the CPUs of a NUMA node that send (`sending` is 1) or receive (0) on a NIC, such as
 * "8-21,112-125". Returns -1 if `node_cpus` is NULL, empty or malformed, or `out` is too small. */
int gpudirect_env_cpus(const char *node_cpus, int sending, char *out, size_t cap);
/* Writes the value of TX_BINDINGS (`sending` is 1) or RX_BINDINGS (0): the NICs whose CPUs are
 * known, as many as fit, or "" if there are none. */
void gpudirect_env_bindings(const struct gpudirect_place *place, int sending, char *out,
			    size_t cap);
/* Writes the list of the NICs, such as "=eth1,eth2": as many as fit, or "" if there are no NICs. */
void gpudirect_env_nics(const struct gpudirect_place *place, char *out, size_t cap);
/* Returns the number that the plugin uses for a variable: its value if that is valid, otherwise the
 * default. */
uint64_t gpudirect_env_number(gpudirect_get_fn get, void *arg, const char *name);
/* Whether a list of the form GPUDIRECT_NICS selects an interface of the name `iface`. The interface
 * need not exist. */
int gpudirect_env_chooses(const char *list, const char *iface);

#endif
