/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that a TCPX plugin needs. It reads its variables once, when it is initialised,
 * and answers a wrong one by hanging or by ending the process; so they are checked before. Nothing
 * here changes the environment: a tool of ours may export the recipe for its own process, in
 * anybody else's process the problems are told with the lines to export. What is known of the
 * machine comes as a plain structure from whoever has a topology.
 */
#ifndef PLUGIN_ENV_H
#define PLUGIN_ENV_H

#include <stddef.h>
#include <stdint.h>

#define GPUDIRECT_SOCKETS_MAX 8	     /* of a comm: sockets a thread times threads */
#define GPUDIRECT_FRAGMENTS_MAX 1900 /* of a message; at 2048 the plugin ends the process */
#define GPUDIRECT_NICS_MAX 16	     /* of the plugin */
#define GPUDIRECT_VALUE_MAX 512
#define GPUDIRECT_PROBLEMS_MAX 32
#define GPUDIRECT_CHUNK 524288 /* bytes of a message, and so of a chunk, by default */

/* A variable that the plugin reads. */
enum gpudirect_form {
	GPUDIRECT_NUMBER,   /* min to max; outside of it the plugin takes the default, silently */
	GPUDIRECT_NICS,	    /* interface names: prefixes, "=" exact, "^" all but these */
	GPUDIRECT_BINDINGS, /* "eth1:8-21,112-125;eth2:..." */
	GPUDIRECT_TEXT,
	GPUDIRECT_UNREAD, /* seen in scripts; the plugin does not read it */
};

struct gpudirect_var {
	const char *name;
	enum gpudirect_form form;
	uint64_t min, max;
	const char *without; /* what holds when it is unset */
	const char *must;    /* the one value that works; NULL: any of the range */
	const char *meaning; /* and what comes of a wrong one */
};

const struct gpudirect_var *gpudirect_var(unsigned index); /* NULL past the end */

#define GPUDIRECT_NUMA_NONE -1	 /* sysfs says so */
#define GPUDIRECT_NUMA_UNTOLD -2 /* sysfs has no such file */

/* A NIC that is to be used. */
struct gpudirect_nic {
	const char *name;
	const char *cpus; /* of its NUMA node, "0-51,104-155"; NULL: not known */
	int numa;	  /* node, or one of the two above */
	unsigned mtu;	  /* 0: not known */
};

struct gpudirect_place {
	const struct gpudirect_nic *nics;
	unsigned nnics;
	const char *const *ifaces; /* every interface of the machine, for what names match */
	unsigned nifaces;
	unsigned nnodes;      /* NUMA nodes */
	size_t message_bytes; /* of our messages; 0: GPUDIRECT_CHUNK */
	const char
		*rxdm_error; /* what asking RxDM at gpudirect_env_prefix() said; NULL: answered */
};

/* Where variables come from: getenv, or a table of a test. */
typedef const char *(*gpudirect_get_fn)(void *arg, const char *name);

struct gpudirect_problem {
	int fatal; /* the plugin would hang, fail or end the process; else it is a hint */
	char what[256];
	char fix[GPUDIRECT_VALUE_MAX + 64]; /* the line to use: "export NAME=VALUE", "unset NAME" */
};

/* Problems of the environment as the plugin would read it, fatal ones first; at most max are
 * written. Returns their number, 0: all is well. */
unsigned gpudirect_env_check(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			     struct gpudirect_problem *out_problems, unsigned max);

/* The folder in which the plugin will look for RxDM's sockets. */
const char *gpudirect_env_prefix(gpudirect_get_fn get, void *arg);

struct gpudirect_setting {
	const char *name;
	char value[GPUDIRECT_VALUE_MAX];
	int users; /* it was set already; the recipe leaves it as it is */
	const char *why;
};

/* The recipe for a tool's own process, what the user set included. Returns how many, at most
 * max. */
unsigned gpudirect_env_recipe(const struct gpudirect_place *place, gpudirect_get_fn get, void *arg,
			      struct gpudirect_setting *out_settings, unsigned max);
#define GPUDIRECT_SETTINGS_MAX 24

/* "export NAME=VALUE", quoted where a shell would otherwise take it apart. Returns buf. */
char *gpudirect_env_line(const char *name, const char *value, char *buf, size_t cap);

/* Fragments that a message may arrive in with packets of an MTU; 0 when the MTU is not known. */
size_t gpudirect_env_fragments(size_t message_bytes, unsigned mtu);

/* Shared by the files of this folder. */

/* The CPUs for sending (sending 1) or receiving on a NIC, of its node's: "8-21,112-125". -1: they
 * are not known or malformed. */
int gpudirect_env_cpus(const char *node_cpus, int sending, char *out, size_t cap);
/* Bindings of all NICs of the place; "" when none is known. */
void gpudirect_env_bindings(const struct gpudirect_place *place, int sending, char *out,
			    size_t cap);
/* "=eth1,eth2"; "" without NICs. */
void gpudirect_env_nics(const struct gpudirect_place *place, char *out, size_t cap);
/* A number of the environment as the plugin takes it, its default included. */
uint64_t gpudirect_env_number(gpudirect_get_fn get, void *arg, const char *name);
/* Whether a list of the form GPUDIRECT_NICS chooses an interface. */
int gpudirect_env_chooses(const char *list, const char *iface);

#endif
