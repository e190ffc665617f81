/* SPDX-License-Identifier: Apache-2.0 */
/* The images of ncclNet plugins in this process: found, loaded, started once, and not unloaded
 * after init. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/config.h"
#include "plugin/setup_priv.h"
#include "plugin/traced.h"
#include "sys/fork.h"

/* The plugin's path if no path is given, TCPX_PLUGIN_PATH is not set, and there is no file at the
 * default of TCPX_PLUGIN_PATH. */
static const char second_place[] = "/var/lib/tcpx/lib64/libnccl-net-tcpx.so";

static const struct net_adapter *const adapters[] = {
	/* the newest first */
	&net_adapter_v12, &net_adapter_v11, &net_adapter_v10, &net_adapter_v9,
	&net_adapter_v8,  &net_adapter_v7,  &net_adapter_v6,
};

static struct {
	pthread_mutex_t lock; /* guards the list and `slots`; held while a plugin loads or starts */
	struct list_node list;
	unsigned slots; /* logger functions in use; each image with a table has one */
	/* `loaded` counts the images in the list; `generation` is the fork generation in which they
	 * were loaded. Both are read without the lock, because the lock may stay locked for ever in
	 * a forked child. */
	_Atomic unsigned loaded;
	_Atomic uint32_t generation;
} images = {.lock = PTHREAD_MUTEX_INITIALIZER, .list = {&images.list, &images.list}};

const char *net_plugin_result(ncclnet_result rc)
{
	static const char *const names[] = {
		"rc 0 (success)",	    "rc 1 (CUDA error)",   "rc 2 (system error)",
		"rc 3 (internal error)",    "rc 4 (bad argument)", "rc 5 (bad usage)",
		"rc 6 (error of the peer)", "rc 7 (in progress)",  "rc 8 (timeout)",
	};

	if (rc < 0 || (size_t)rc >= sizeof(names) / sizeof(names[0]))
		return "a result code that ncclNet does not define";
	return names[rc];
}

static struct net_plugin *plugin_new(const char *path, const char *resolved)
{
	struct net_plugin *plugin = calloc(1, sizeof(*plugin));
	const char *slash = strrchr(resolved, '/');

	if (!plugin)
		return NULL;
	snprintf(plugin->path, sizeof(plugin->path), "%s", path);
	snprintf(plugin->resolved, sizeof(plugin->resolved), "%s", resolved);
	snprintf(plugin->log.file, sizeof(plugin->log.file), "%.63s", slash ? slash + 1 : resolved);
	list_init(&plugin->node);
	list_init(&plugin->lost);
	pthread_mutex_init(&plugin->lost_lock, NULL);
	pthread_mutex_init(&plugin->first_lock, NULL);
	pthread_mutex_init(&plugin->log.lock, NULL);
	net_cond_init(&plugin->first_free);
	pthread_cond_init(&plugin->lost_other, NULL);
	return plugin;
}

/* Unloads and frees an image. Only before init: later, threads of the plugin may run its code. */
static void plugin_free(struct net_plugin *plugin)
{
	if (plugin->dl)
		dlclose(plugin->dl);
	pthread_cond_destroy(&plugin->lost_other);
	pthread_cond_destroy(&plugin->first_free);
	pthread_mutex_destroy(&plugin->log.lock);
	pthread_mutex_destroy(&plugin->first_lock);
	pthread_mutex_destroy(&plugin->lost_lock);
	free(plugin);
}

/* Replaces the advice of the last error. If `why` (the text of dlerror) names a missing library
 * that is in a usual folder, the advice is an LD_LIBRARY_PATH with that folder. Otherwise it is a
 * command that lists the libraries of the plugin. Returns the status of the last error. */
static tcpx_status suggest_folder(const char *why, const char *file)
{
	static const char *const folders[] = {"/usr/local/nvidia/lib64", "/usr/local/cuda/lib64",
					      "/usr/local/cuda/compat", "/usr/lib/x86_64-linux-gnu",
					      "/usr/lib64"};
	const char *home = secure_getenv("CUDA_HOME");
	size_t count = sizeof(folders) / sizeof(folders[0]), len = strcspn(why, ":");
	char folder[256], path[512];

	for (size_t i = 0; i <= count && strstr(why, "cannot open shared object file"); i++) {
		if (i == count && !home)
			break;
		snprintf(folder, sizeof(folder), "%s%s", i == count ? home : folders[i],
			 i == count ? "/lib64" : "");
		snprintf(path, sizeof(path), "%s/%.*s", folder, (int)(len < 200 ? len : 200), why);
		if (!access(path, F_OK))
			return error_next("export LD_LIBRARY_PATH=%s:$LD_LIBRARY_PATH", folder);
	}
	return error_next("see 'ldd %s'", file);
}

/* Loads the object. Records in plugin->shared whether the process had loaded it before. */
static tcpx_status open_body(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;
	void *before = dlopen(plugin->resolved, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	const char *why;

	plugin->shared = before != NULL;
	plugin->dl = before ? before : dlopen(plugin->resolved, RTLD_NOW | RTLD_LOCAL);
	if (plugin->dl)
		return TCPX_OK;
	why = dlerror();
	why = why ? why : plugin->resolved;
	error_set(TCPX_ERR_UNSUPPORTED, 0, "the plugin cannot be loaded: %s", why);
	return suggest_folder(why, plugin->log.file);
}

/* Picks the newest table that the object exports. Returns ERR_VERSION if no table has a known
 * version, or if a required member of the picked table is NULL. */
static tcpx_status find_table(struct net_plugin *plugin)
{
	const char *missing;

	for (size_t i = 0; i < sizeof(adapters) / sizeof(adapters[0]); i++) {
		const void *table = dlsym(plugin->dl, adapters[i]->symbol);

		if (!table)
			continue;
		plugin->exported |= 1u << adapters[i]->version;
		if (plugin->adapter)
			continue;
		plugin->adapter = adapters[i];
		plugin->table = table;
	}
	if (!plugin->adapter) {
		error_set(TCPX_ERR_VERSION, 0, "%s has no ncclNetPlugin_v%d ... _v%d",
			  plugin->resolved, NCCLNET_VERSION_MIN, NCCLNET_VERSION_MAX);
		return error_next("give the path of an ncclNet plugin of one of those versions");
	}
	missing = plugin->adapter->missing(plugin->table);
	if (missing) {
		error_set(TCPX_ERR_VERSION, 0, "%s of %s has no %s", plugin->adapter->symbol,
			  plugin->log.file, missing);
		return error_next("use a plugin whose table is complete");
	}
	return TCPX_OK;
}

/* Sets the error for a plugin's call that returned `rc` during the start. Returns the error's
 * status. */
static tcpx_status init_refused(struct net_setup *setup, const char *call, ncclnet_result rc)
{
	struct net_plugin *plugin = setup->opts.plugin;
	char said[NET_PLUGIN_LINE_BYTES];

	net_plugin_said(plugin, setup->warned, said, sizeof(said));
	error_set(TCPX_ERR_UNSUPPORTED, 0, "%s of %s: %s%s", call, plugin->log.file,
		  net_plugin_result(rc), said);
	if (plugin->shared)
		return error_next("another component of this process (NCCL?) has loaded it before: "
				  "set TCPX_PLUGIN_PATH to a copy of the file");
	return error_next("set what the plugin asks for and restart the process");
}

static tcpx_status devices_read(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;
	int count = 0;
	ncclnet_result rc = plugin->adapter->devices(plugin->table, &count);
	tcpx_status status = TCPX_OK;

	if (rc)
		return init_refused(setup, "devices", rc);
	if (count < 1) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "%s finds no NIC that it can use",
			  plugin->log.file);
		return error_next("check which interfaces its ..._SOCKET_IFNAME selects");
	}
	if (count > NET_PLUGIN_DEVICES) {
		LOG_WARN("%s has %d devices; only the first %d are used", plugin->log.file, count,
			 NET_PLUGIN_DEVICES);
		count = NET_PLUGIN_DEVICES;
	}
	for (int i = 0; i < count && !status; i++)
		status = net_plugin_properties(plugin, i, &plugin->devices[i]);
	if (!status)
		plugin->ndevices = (unsigned)count;
	return status;
}

/* Calls init, then reads the properties of all devices. */
static tcpx_status start_body(struct net_setup *setup)
{
	struct net_plugin *plugin = setup->opts.plugin;
	ncclnet_logger logger = net_plugin_logger(plugin->slot, &plugin->log);
	ncclnet_result rc = plugin->adapter->init(plugin->table, logger, &plugin->context);

	if (rc)
		return init_refused(setup, "init", rc);
	snprintf(plugin->name, sizeof(plugin->name), "%s", plugin->adapter->name(plugin->table));
	return devices_read(setup);
}

/* Runs `body` on a thread of its own, and returns the status of `body`. After timeout_ns, returns
 * ERR_TIMED_OUT; the thread then continues, and still uses `plugin`. Returns another error if the
 * thread could not be started. */
static tcpx_status plugin_run(struct net_plugin *plugin, const char *stage, int64_t timeout_ns,
			      tcpx_status (*body)(struct net_setup *))
{
	struct net_setup_opts opts = {.plugin = plugin,
				      .dev = NET_PLUGIN_DEVICES,
				      .gpu = -1,
				      .deadline_ns = clock_now_ns() + timeout_ns};
	struct net_setup *setup = net_setup_new(&opts, stage, body, NULL);
	tcpx_status status;

	if (!setup)
		return error_last()->status;
	status = net_setup_run(setup, &setup);
	return status ? status : net_setup_wait(setup, NULL);
}

/* Returns the image of the same object that was loaded earlier by another path, or NULL. Called
 * under images.lock. */
static struct net_plugin *find_same(const struct net_plugin *plugin)
{
	struct list_node *node;

	LIST_FOREACH(node, &images.list) {
		struct net_plugin *other = LIST_ENTRY(node, struct net_plugin, node);

		if (other->dl == plugin->dl)
			return other;
	}
	return NULL;
}

static void image_keep(struct net_plugin *plugin)
{
	list_push_back(&images.list, &plugin->node);
	atomic_store_explicit(&images.generation, sys_fork_generation(), memory_order_relaxed);
	atomic_fetch_add_explicit(&images.loaded, 1, memory_order_release);
}

/* Loads the object at `resolved` and adds its image to the list. *out_plugin is that image, or an
 * older image of the same object that was loaded by another path. If loading times out, returns
 * ERR_TIMED_OUT and sets *out_plugin to an image that the caller must mark as failed. After other
 * errors *out_plugin is unchanged. Called under images.lock. */
static tcpx_status image_load(const struct net_plugin_opts *opts, const char *path,
			      const char *resolved, struct net_plugin **out_plugin)
{
	struct net_plugin *plugin = plugin_new(path, resolved), *same;
	tcpx_status status;

	if (!plugin)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for plugin %s", path);
	status = plugin_run(plugin, "dlopen", opts->timeout_ns, open_body);
	if (status == TCPX_ERR_TIMED_OUT) {
		image_keep(plugin); /* the thread is still in dlopen and uses plugin */
		*out_plugin = plugin;
		return status;
	}
	same = status ? NULL : find_same(plugin);
	if (same) {
		plugin_free(plugin);
		*out_plugin = same;
		return TCPX_OK;
	}
	if (!status)
		status = find_table(plugin);
	if (!status && images.slots == NET_PLUGIN_IMAGES)
		status = error_set(TCPX_ERR_LIMIT, 0, "%d plugins are loaded, and no more can be",
				   NET_PLUGIN_IMAGES);
	if (status) {
		plugin_free(plugin);
		return status;
	}
	net_traced_wrap(plugin); /* plugin_free() does not undo it */
	plugin->slot = images.slots++;
	image_keep(plugin);
	*out_plugin = plugin;
	return TCPX_OK;
}

/* Calls before_start and, unless that fails, runs start_body. Called under images.lock, for an
 * image whose init was not called yet. */
static tcpx_status image_start(const struct net_plugin_opts *opts, struct net_plugin *plugin)
{
	tcpx_status status = TCPX_OK;

	if (opts->before_start)
		status = opts->before_start(opts->arg, plugin->adapter->name(plugin->table));
	if (status)
		return status;
	plugin->started = true;
	status = plugin_run(plugin, "init", opts->timeout_ns, start_body);
	if (status)
		plugin->failed = *error_last();
	return status;
}

static struct net_plugin *find_resolved(const char *resolved)
{
	struct list_node *node;

	LIST_FOREACH(node, &images.list) {
		struct net_plugin *plugin = LIST_ENTRY(node, struct net_plugin, node);

		if (!strcmp(plugin->resolved, resolved))
			return plugin;
	}
	return NULL;
}

static tcpx_status image_resolve(const char *path, char *out, size_t bytes)
{
	char *real = realpath(path, NULL);

	if (!real) {
		int err = errno;

		error_set(TCPX_ERR_NOT_FOUND, err, "no plugin at %s", path);
		return error_next("give the path of the plugin's .so, as this process sees it");
	}
	snprintf(out, bytes, "%s", real);
	if (strlen(real) >= bytes) {
		free(real);
		return error_set(TCPX_ERR_LIMIT, 0, "the plugin's path is longer than %zu bytes",
				 bytes - 1);
	}
	free(real);
	return TCPX_OK;
}

/* Finds the plugin's file. If *path is NULL or empty, uses the value of TCPX_PLUGIN_PATH. If that
 * value is only the default, and no file is there, uses second_place. Sets *path to the path in
 * use, and `resolved` to that path without symbolic links. */
static tcpx_status image_locate(const char **path, char *resolved, size_t bytes)
{
	if (*path && **path)
		return image_resolve(*path, resolved, bytes);
	*path = config_text(CONFIG_PLUGIN_PATH);
	if (config_value(CONFIG_PLUGIN_PATH)->source != CONFIG_DEFAULT || !access(*path, F_OK))
		return image_resolve(*path, resolved, bytes);
	*path = second_place;
	if (!access(*path, F_OK))
		return image_resolve(*path, resolved, bytes);
	error_set(TCPX_ERR_NOT_FOUND, 0, "no plugin at %s or %s", config_text(CONFIG_PLUGIN_PATH),
		  second_place);
	return error_next("install the TCPX plugin there, or give its path");
}

tcpx_status net_plugin_get(const struct net_plugin_opts *opts, struct net_plugin **out_plugin)
{
	char resolved[NET_PLUGIN_PATH_BYTES];
	const char *path = opts->path;
	struct net_plugin *plugin;
	tcpx_status status = image_locate(&path, resolved, sizeof(resolved));

	if (status)
		return status;
	if (atomic_load_explicit(&images.loaded, memory_order_acquire) &&
	    atomic_load_explicit(&images.generation, memory_order_relaxed) != sys_fork_generation())
		return error_set(TCPX_ERR_FORKED, 0, "a plugin was loaded before fork()");
	pthread_mutex_lock(&images.lock);
	plugin = find_resolved(resolved);
	if (!plugin) {
		status = image_load(opts, path, resolved, &plugin);
		if (status && plugin)
			plugin->failed = *error_last();
	}
	if (plugin && plugin->failed.status)
		status = error_raise(&plugin->failed);
	else if (!status && !plugin->started)
		status = image_start(opts, plugin);
	if (!status)
		atomic_fetch_add_explicit(&plugin->refs, 1, memory_order_relaxed);
	pthread_mutex_unlock(&images.lock);
	if (!status)
		*out_plugin = plugin;
	return status;
}

void net_plugin_put(struct net_plugin *plugin)
{
	atomic_fetch_sub_explicit(&plugin->refs, 1, memory_order_relaxed);
}

void net_plugin_describe(struct net_plugin *plugin, struct net_plugin_info *out_info)
{
	/* `abandoned` is read before `leaked`. A late thread counts its leak before it decrements
	 * `abandoned`. So if `abandoned` is 0 here, `leaked` is complete. */
	unsigned abandoned = atomic_load_explicit(&plugin->abandoned, memory_order_acquire);
	struct net_plugin_info info = {
		.version = plugin->adapter->version,
		.exported = plugin->exported,
		.has_consumed = plugin->adapter->has_consumed(plugin->table),
		.has_device_mr = plugin->adapter->has_device_mr(plugin->table),
		.devices = plugin->ndevices,
		.refs = atomic_load_explicit(&plugin->refs, memory_order_relaxed),
		.abandoned = abandoned,
		.leaked = atomic_load_explicit(&plugin->leaked, memory_order_relaxed),
	};

	snprintf(info.path, sizeof(info.path), "%s", plugin->path);
	snprintf(info.resolved, sizeof(info.resolved), "%s", plugin->resolved);
	snprintf(info.name, sizeof(info.name), "%s", plugin->name);
	pthread_mutex_lock(&plugin->log.lock);
	info.warnings = plugin->log.warnings;
	snprintf(info.last_warning, sizeof(info.last_warning), "%s", plugin->log.last);
	pthread_mutex_unlock(&plugin->log.lock);
	*out_info = info;
}

void net_plugin_wait(struct net_plugin *plugin, unsigned abandoned)
{
	pthread_mutex_lock(&plugin->lost_lock);
	while (atomic_load_explicit(&plugin->abandoned, memory_order_acquire) != abandoned)
		pthread_cond_wait(&plugin->lost_other, &plugin->lost_lock);
	pthread_mutex_unlock(&plugin->lost_lock);
}

const struct net_plugin_device *net_plugin_device(const struct net_plugin *plugin, unsigned dev)
{
	return dev < plugin->ndevices ? &plugin->devices[dev] : NULL;
}

tcpx_status net_plugin_find(const struct net_plugin *plugin, const char *name, unsigned *out_dev)
{
	char names[256] = "";
	size_t len = 0;

	for (unsigned i = 0; i < plugin->ndevices; i++) {
		if (!strcmp(plugin->devices[i].name, name)) {
			*out_dev = i;
			return TCPX_OK;
		}
		len += text_format(names + len, sizeof(names) - len, "%s%s", i ? " " : "",
				   plugin->devices[i].name);
	}
	return error_set(TCPX_ERR_NOT_FOUND, 0, "%s has no NIC %s; it has %s", plugin->log.file,
			 name, names);
}
