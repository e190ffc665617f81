/* SPDX-License-Identifier: Apache-2.0 */
/* Init parameters: the library's options by their names, with or without TCPX_, in any case. */
#include "backend.hpp"

#include <cstring>
#include <strings.h>

namespace tcpx_nixl
{
// Of UCX's, for tools that hard-code it: listed and ignored.
static const nixl_b_params_t inert = {
	{"ucx_error_handling_mode", "peer"},
	{"num_workers", "1"},
	{"num_threads", "0"},
	{"split_batch_size", "1024"},
	{"engine_config", ""},
	{"device_list", ""},
	{"ucx_devices", ""},
};

std::string converted(std::string text, int (*change)(int))
{
	for (char &each : text)
		each = char(change(static_cast<unsigned char>(each)));
	return text;
}

static std::string environment_name(const std::string &key)
{
	return "TCPX_" + converted(key, std::toupper);
}

static std::string short_name(const std::string &name)
{
	std::string out = converted(name, std::tolower);

	if (!out.compare(0, 5, "tcpx_"))
		out.erase(0, 5);
	if (out == "strict_abort")
		return "strict_cancel";
	return out == "interfaces" ? "bind" : out;
}

// What is in force, so that a map that is handed back changes nothing.
nixl_b_params_t settings_list(bool alias)
{
	nixl_b_params_t all = alias ? inert : nixl_b_params_t();
	tcpx_option option;

	option.sz = sizeof(option);
	for (std::uint32_t i = 0; tcpx_option_get(i, &option) == TCPX_OK; i++)
		all[short_name(option.name)] = option.value;
	if (all["bind"].empty())
		all["bind"] = "auto";
	return all;
}

static void take_transport(const std::string &name, settings &out)
{
	tcpx_session_opts &session = out.session;

	if (name == "tcp" || name == "gpudirect")
		session.flags |= TCPX_SESSION_NO_LOCAL;
	else if (name == "local")
		session.flags |= TCPX_SESSION_LOCAL_ONLY;
	else if (name != "auto")
		throw std::runtime_error("nixl_transport is '" + name +
					 "': auto, tcp, local or gpudirect");
	if (name == "tcp" || name == "local")
		session.plugin = "";
	else if (name == "gpudirect" && out.in_force.at("plugin").empty())
		session.plugin = "default";
}

// Where to listen, and when to connect, is each agent's own.
static std::uint32_t number(const settings &in, const std::string &key)
{
	std::uint64_t value;

	must(tcpx_option_parse(environment_name(key).c_str(), in.in_force.at(key).c_str(), &value));
	return std::uint32_t(value);
}

void settings_take(const nixlBackendInitParams &args, settings &out)
{
	nixl_b_params_t &all = out.in_force = settings_list(args.type == "UCX");

	out.session.sz = sizeof(out.session);
	out.session.flags = TCPX_SESSION_INFO_ONLY | TCPX_SESSION_NO_ACCEPT;
	out.session.bind = all["bind"].c_str();
	for (const auto &[given, value] :
	     args.customParams ? *args.customParams : nixl_b_params_t()) {
		const std::string key = short_name(given);
		auto known = all.find(key);

		if (known == all.end())
			say(TCPX_LOG_WARN, "parameter '%s' is ignored: it is no option of ours",
			    given.c_str());
		else if (known->second != value && !inert.count(key)) {
			const std::string name = environment_name(key);

			if (key != "bind") // the process's is none of ours
				out.before.emplace_back(name, known->second);
			known->second = value; // stays where it is: opts point to it
			if (key.compare(0, 5, "nixl_") && key != "port_retries")
				must(tcpx_session_opts_set(&out.session, name.c_str(),
							   known->second.c_str()));
		}
	}
	out.listen.sz = sizeof(out.listen);
	out.listen.port = std::uint16_t(number(out, "nixl_port"));
	out.listen.retries = number(out, "port_retries");
	out.eager = number(out, "nixl_eager_connect");
	out.channels = number(out, "channels");
	take_transport(all["nixl_transport"], out);
}

} // namespace tcpx_nixl
