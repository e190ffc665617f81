/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that a TCPX plugin needs. The plugin reads its variables once, in init, and hangs
 * or ends the process when one is wrong, so they are checked before. Nothing here changes the
 * environment: tools export the recipe for their own process, and in an application's process the
 * problems are reported with the lines to export. The caller describes the machine in a struct.
 */
#ifndef PLUGIN_ENV_H
#define PLUGIN_ENV_H

#include <stddef.h>
#include <stdint.h>

#define GPUDIRECT_SOCKETS_MAX 8	     /* of a comm: sockets per thread times threads */
#define GPUDIRECT_FRAGMENTS_MAX 1900 /* of a message; with 2048 the plugin ends the process */
#define GPUDIRECT_NICS_MAX 16	     /* that the plugin has room for */
#define GPUDIRECT_VALUE_MAX 512
#define GPUDIRECT_PROBLEMS_MAX 32
#define GPUDIRECT_CHUNK 524288 /* bytes of a message, and so of a chunk, by default */

/* A variable that the plugin reads. */
enum gpudirect_form {
	GPUDIRECT_NUMBER,   /* min to max; outside the plugin silently uses the default */
	GPUDIRECT_NICS,	    /* interface names: prefixes, "=" exact, "^" all but these */
	GPUDIRECT_BINDINGS, /* "eth1:8-21,112-125;eth2:..." */
	GPUDIRECT_TEXT,
	GPUDIRECT_UNREAD, /* found in scripts, but not read by the plugin */
};

struct gpudirect_var {
	const char *name;
	enum gpudirect_form form;
	uint64_t min, max;
	const char *without; /* the default */
	const char *must;    /* the only value that works; NULL: any in the range */
	const char *meaning; /* and the effect of a wrong value */
};

const struct gpudirect_var *gpudirect_var(unsigned index); /* NULL past the end */

#define GPUDIRECT_NUMA_NONE -1	 /* as sysfs says: no node */
#define GPUDIRECT_NUMA_UNTOLD -2 /* sysfs has no file for it */

/* A NIC that is to be used. */
struct gpudirect_nic {
	const char *name;
	const char *cpus; /* of its NUMA node, "0-51,104-155"; NULL: not known */
	int numa;	  /* node, or one of the two values above */
	unsigned mtu;	  /* 0: not known */
};

struct gpudirect_place {
	const struct gpudirect_nic *nics;
	unsigned nnics;
	const char *const *ifaces; /* every interface of the machine, to match names against */
	unsigned nifaces;
	unsigned nnodes;      /* NUMA nodes */
	size_t message_bytes; /* of the session's messages; 0: GPUDIRECT_CHUNK */
	const char
		*rxdm_error; /* why RxDM at gpudirect_env_prefix() did not answer; NULL: it did */
};

/* Reads a variable: getenv, or a table of a test. */
typedef const char *(*gpudirect_get_fn)(void *arg, const char *name);

struct gpudirect_problem {
	int fatal; /* the plugin would hang, fail or end the process; else a hint */
	char what[256];
	char fix[GPUDIRECT_VALUE_MAX + 64]; /* the line to use: "export NAME=VALUE", "unset NAME" */
};

/* Finds problems of the environment, and writes at most max of them, fatal ones first. Returns
 * their number; 0: none. */
unsigned gpudirect_env_check(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			     struct gpudirect_problem *out_problems, unsigned max);

/* The folder in which the plugin will look for RxDM's sockets. */
const char *gpudirect_env_prefix(gpudirect_get_fn get, void *arg);

struct gpudirect_setting {
	const char *name;
	char value[GPUDIRECT_VALUE_MAX];
	int users; /* the user has set it; the recipe keeps that value */
	const char *why;
};

/* The variables for a tool's own process, those that the user has set included. Returns their
 * number, at most max. */
unsigned gpudirect_env_recipe(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			      struct gpudirect_setting *out_settings, unsigned max);
#define GPUDIRECT_SETTINGS_MAX 24

/* "export NAME=VALUE", quoted for a shell where needed. Returns buf. */
char *gpudirect_env_line(const char *name, const char *value, char *buf, size_t cap);

/* The most fragments in which a message arrives with packets of that MTU; 0: unknown MTU. */
size_t gpudirect_env_fragments(size_t message_bytes, unsigned mtu);

/* Shared by env_*.c. */

/* The part of a NUMA node's CPUs that sends (sending 1) or receives on a NIC: "8-21,112-125". -1:
 * the node's CPUs are unknown or malformed. */
int gpudirect_env_cpus(const char *node_cpus, int sending, char *out, size_t cap);
/* The value of TX_BINDINGS or RX_BINDINGS for all NICs; "": no CPUs are known. */
void gpudirect_env_bindings(const struct gpudirect_place *place, int sending, char *out,
			    size_t cap);
/* "=eth1,eth2"; "" without NICs. */
void gpudirect_env_nics(const struct gpudirect_place *place, char *out, size_t cap);
/* The number that the plugin uses for a variable: its value, or the default. */
uint64_t gpudirect_env_number(gpudirect_get_fn get, void *arg, const char *name);
/* Whether a list of the form GPUDIRECT_NICS selects an interface. */
int gpudirect_env_chooses(const char *list, const char *iface);

#endif
