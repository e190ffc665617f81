# SPDX-License-Identifier: Apache-2.0
"""What is measured, and the lines that judge it: a value of each repetition and what it must be.
A line without a must-value is there for scale."""
import os
import tomllib
from collections import namedtuple

import speed_trace
from speed_env import Missing

M = 1 << 20
SIZES = (4, 16, 64, 256)


def rate(rows, size):
    return rows[size]["bytes_per_second"]


def put(r, key, rows):
    """Keeps the rate of every row as key + MiB, its ceiling as key + MiB + '.ceil'."""
    for size, row in rows.items():
        name = f"{key}{size // M}"
        r[name] = row["bytes_per_second"]
        if "ceiling_bytes_per_second" in row:
            r[name + ".ceil"] = row["ceiling_bytes_per_second"]
            cpu, base = row["cpu_seconds_per_gb"], row["ceiling_cpu_seconds_per_gb"]
            r[name + ".cpu"] = cpu["local"] + cpu["remote"]
            r[name + ".ceil.cpu"] = base["local"] + base["remote"]


# Measurements: each gets the environment and the values of this repetition.

def raw(env, r):
    for sockets in (1, 2):
        out = env.program("raw_tcp", "--sockets", sockets, "--bytes", "1G" if env.quick else "4G")
        r[f"raw{sockets}"] = out["bytes_per_second"]
        r[f"raw{sockets}.cpu"] = sum(out["cpu_seconds_per_gb"].values())


def iperf(env, r):
    r["iperf"] = env.iperf()


def write_small(env, r):
    put(r, "w8.", env.perf("--size", "1M", "--depth", 8, "--ceiling"))


def write_4(env, r):
    put(r, "w4.", env.perf("--size", ",".join(f"{s}M" for s in SIZES), "--depth", 4, "--ceiling"))


def write_8(env, r):
    put(r, "w8.", env.perf("--size", "4M,64M", "--depth", 8, "--ceiling"))


def read_4(env, r):
    put(r, "r4.", env.perf("--op", "read", "--size", "4M,64M", "--depth", 4))


def one_channel(env, r):
    put(r, "one.", env.perf("--size", "64M", "--depth", 4, "--channels", 1, "--ceiling"))


def local(env, r):
    put(r, "local.", env.perf("--size", "64M", "--depth", 4, transport="local"))


def scattered(env, r):
    """Contiguous and in pieces, in turn, from one registered set of 256 MiB."""
    for op in ("write", "read"):
        for batch in (1, 1024, 16384):
            rows = env.perf("--op", op, "--size", "64M", "--depth", 4, "--batch", batch)
            r[f"{op}/{batch}"] = rate(rows, 64 * M)
            r[f"{op}/{batch}.cpu"] = sum(rows[64 * M]["cpu_seconds_per_gb"].values())
    for pieces in (0, 64 << 10, 4 << 10):
        out = env.program("raw_tcp", "--sockets", 2, "--bytes", "1G" if env.quick else "3G",
                          "--pieces", pieces)
        r[f"raw/{pieces}"] = out["bytes_per_second"]
        r[f"raw/{pieces}.cpu"] = sum(out["cpu_seconds_per_gb"].values())


def latency(env, r):
    for name, argv in (("sleep", ["--op", "latency"]), ("spin", ["--op", "latency", "--busy-poll"]),
                       ("notify", ["--op", "notify"])):
        row = next(iter(env.perf(*argv, "--ceiling", time_s=0.6).values()))
        r["lat." + name], r["lat." + name + ".plain"] = row["time"]["p50"], row["ceiling_one_way"]
    for wait in ("block", "spin"):
        out = env.program("raw_tcp", "--ping", wait, "--trips", 5000)
        r["ping." + wait] = out["p50"]


def hot(env, r):
    for op in ("write", "read"):
        rows = env.perf("--op", op, "--size", "1M", "--depth", 8, "--working-set", "1M",
                        "--no-check")
        r["hot." + op] = rate(rows, M)


def ucx(env, r):
    if not env.ucx:
        raise Missing("UCX not installed")
    for version in env.ucx:
        for test in ("ucp_put_bw", "ucp_get"):
            for tuned in (False, True):
                count = 400 if env.quick or version.startswith("1.13") else 1500
                key = f"{test}.{'tuned' if tuned else 'default'}"
                try:
                    value = env.ucx_bandwidth(version, test, M, count, tuned)
                except (RuntimeError, OSError, ValueError, IndexError) as e:
                    r.setdefault("notes", []).append(f"UCX {version} {key}: {e}")
                    continue
                r[f"ucx {version}.{key}"] = value
                r[key] = max(r.get(key, 0), value)


def mpi(env, r):
    rates = env.mpi_bandwidth((1 if env.quick else 3) << 30, [M, 16 * M, 64 * M])
    r.update({f"mpi.{size // M}": rates[size] for size in rates})
    put(r, "mpi.w.", env.perf("--size", "1M,16M,64M", "--depth", 8))


def bbr(env, r):
    if not env.has_bbr:
        raise Missing("the kernel has no bbr")
    put(r, "bbr.", env.perf("--size", "64M", "--depth", 4, "--channels", 2, space="bbr"))
    r["bbr.iperf"] = env.iperf("-C", "bbr", space="bbr")


def veth(env, r):
    put(r, "veth.", env.perf("--size", "4M,64M", "--depth", 4, "--ceiling", space="a"))
    put(r, "veth.one.", env.perf("--size", "64M", "--depth", 4, "--channels", 1, "--ceiling",
                                 space="a"))
    put(r, "veth.r.", env.perf("--op", "read", "--size", "64M", "--depth", 4, space="a"))
    r["veth.iperf"] = env.iperf(space="a", to="10.99.0.2")


def peers(env, r):
    for count in (1, 16, 64):
        out = env.program("many_peers", "--peers", count, "--time", env.seconds(1.2))
        r[f"peers.{count}"], r[f"peers.{count}.spread"] = out["bytes_per_second"], out["max_to_min"]


def calls(env, r):
    out = env.program("post_cost")
    r.update({"call." + key: out[key] for key in ("prepare", "post", "post_cpu", "register_all",
                                                  "connect", "first_transfer")})


def beside(env, r):
    out = env.program("beside")
    r["beside.p50"], r["beside.p99"] = out["p50"] / 2, out["p99"] / 2
    r["beside.large"] = out["large_bytes_per_second"]


def idle(env, r):
    """Channels by the difference of 34 and 2 of them, after 16 MiB went over them."""
    seconds, few, many = 2 if env.quick else 5, 2, 34
    out = {n: env.program("idle_cost", n, seconds, 16 * M) for n in (few, many)}
    for key in ("rss_bytes", "descriptors"):
        r["idle." + key] = max(out[many][end][key] - out[few][end][key]
                               for end in ("client", "server")) / (many - few)
    for key in ("wakeups_per_second", "cores"):
        r["idle." + key] = max(out[few][end][key] for end in ("client", "server"))


# Groups: what is measured close together, in random order. 'once': in the first repetition only.
GROUPS = {
    "bulk": [raw, iperf, write_small, write_4, write_8, read_4, one_channel, local],
    "scattered": [scattered],
    "latency": [latency, beside],
    "calls": [calls],
    "ucx": [hot, ucx],
    "mpi": [mpi],
    "bbr": [bbr],
    "veth": [veth],
    "peers": [peers],
    "idle": [idle],
    "trace": [speed_trace.cost, speed_trace.goodput_tcp, speed_trace.goodput_plugin,
              speed_trace.reading],
}
ONCE = {"idle"}

Line = namedtuple("Line", "group title value sign must")
TARGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.toml")
SIGNS = {">=": "≥", "<=": "≤"}
with open(TARGETS, "rb") as targets:
    MUST = tomllib.load(targets)


def line(group, title, value_of):
    """A line with what targets.toml wants of it, if it wants anything."""
    sign, _, must = MUST.get(group, {}).get(title, "").partition(" ")
    return Line(group, title, value_of, SIGNS.get(sign, ""), float(must) if must else None)


def ratio(a, b):
    return lambda r: r[a] / r[b]


def value(key, scale=1.0):
    return lambda r: r[key] * scale


def lines():
    out = [line("bulk", "1 MiB × 8 of ceiling", ratio("w8.1", "w8.1.ceil"))]
    for size in SIZES:
        out.append(line("bulk", f"{size} MiB × 4 of ceiling",
                        ratio(f"w4.{size}", f"w4.{size}.ceil")))
    for size in (4, 64):
        out.append(line("bulk", f"{size} MiB × 8 of ceiling",
                        ratio(f"w8.{size}", f"w8.{size}.ceil")))
    out += [
        line("bulk", "one channel, 64 MiB × 4, of ceiling (one socket)",
             ratio("one.64", "one.64.ceil")),
        line("bulk", "READ of WRITE, 4 MiB × 4", ratio("r4.4", "w4.4")),
        line("bulk", "READ of WRITE, 64 MiB × 4", ratio("r4.64", "w4.64")),
        line("bulk", "64 MiB × 4 of iperf3 -P 1", ratio("w4.64", "iperf")),
        line("bulk", "CPU of both ends, 64 MiB × 4, of the ceiling's",
             ratio("w4.64.cpu", "w4.64.ceil.cpu")),
        line("bulk", "CPU of both ends, 1 MiB × 8, of the ceiling's",
             ratio("w8.1.cpu", "w8.1.ceil.cpu")),
        line("bulk", "CPU of both ends, one channel, of the ceiling's",
             ratio("one.64.cpu", "one.64.ceil.cpu")),
        line("bulk", "local, 64 MiB × 4, of one plain TCP socket", ratio("local.64", "raw1")),
        line("veth", "veth: 4 MiB × 4 of ceiling", ratio("veth.4", "veth.4.ceil")),
        line("veth", "veth: 64 MiB × 4 of ceiling", ratio("veth.64", "veth.64.ceil")),
        line("veth", "veth: one channel of ceiling", ratio("veth.one.64", "veth.one.64.ceil")),
        line("veth", "veth: READ of WRITE, 64 MiB × 4", ratio("veth.r.64", "veth.64")),
        line("veth", "veth: 64 MiB × 4 of iperf3 -P 1", ratio("veth.64", "veth.iperf")),
        line("veth", "veth: CPU of both ends of the ceiling's",
             ratio("veth.64.cpu", "veth.64.ceil.cpu")),
    ]
    for op in ("write", "read"):
        name = op.upper()
        out.append(line("scattered", f"{name}: 64 MiB as 64 KiB × 1024 of contiguous",
                        ratio(f"{op}/1024", f"{op}/1")))
        out.append(line("scattered", f"{name}: 64 MiB as 4 KiB × 16384 of contiguous",
                        ratio(f"{op}/16384", f"{op}/1")))
    for pieces, batch in ((64 << 10, 1024), (4 << 10, 16384)):
        text = f"{pieces >> 10} KiB × {batch}"
        out.append(line("scattered", f"plain sockets: {text} of contiguous, for scale",
                        ratio(f"raw/{pieces}", "raw/0")))
        out.append(line("scattered", f"WRITE: {text} of plain sockets with the same pieces",
                        ratio(f"write/{batch}", f"raw/{pieces}")))
        out.append(line("scattered", f"CPU of both ends: {text} of contiguous",
                        ratio(f"write/{batch}.cpu", "write/1.cpu")))
        out.append(line("scattered", f"CPU of both ends, plain sockets: {text} of contiguous",
                        ratio(f"raw/{pieces}.cpu", "raw/0.cpu")))
    return out + call_lines() + peer_lines() + \
        speed_trace.lines(Line, value)


def call_lines():
    return [
        line("calls", "prepare + post of 100,000 segments, ms",
             lambda r: (r["call.prepare"] + r["call.post"]) * 1e3),
        line("calls", "post alone, µs", value("call.post", 1e6)),
        line("calls", "post alone, µs of CPU of its thread", value("call.post_cpu", 1e6)),
        line("latency", "8 B one way of a plain blocking one", ratio("lat.sleep",
             "lat.sleep.plain")),
        line("latency", "8 B one way, busy-poll, of a plain spinning one",
             ratio("lat.spin", "lat.spin.plain")),
        line("latency", "notification one way of a plain blocking one",
             ratio("lat.notify", "lat.notify.plain")),
        line("latency", "8 B one way of raw_tcp's blocking ping-pong", ratio("lat.sleep",
             "ping.block")),
        line("latency", "8 B one way, busy-poll, of raw_tcp's spinning one",
             ratio("lat.spin", "ping.spin")),
        line("latency", "p99 of 8 B (post → done)/2 beside 1 GB, µs", value("beside.p99", 1e6)),
        line("calls", "first transfer after connect, 1 MiB, ms",
             value("call.first_transfer", 1e3)),
        line("calls", "1000 registrations, ms", value("call.register_all", 1e3)),
    ]


def peer_lines():
    return [
        line("ucx", "1 MiB WRITE, hot, of UCX's best put",
             lambda r: r["hot.write"] / max(r["ucp_put_bw.default"], r["ucp_put_bw.tuned"])),
        line("ucx", "1 MiB READ, hot, of UCX's best tuned get", ratio("hot.read", "ucp_get.tuned")),
        line("ucx", "1 MiB READ, hot, of UCX's best default get",
             ratio("hot.read", "ucp_get.default")),
        line("mpi", "1 MiB of Open MPI", ratio("mpi.w.1", "mpi.1")),
        line("mpi", "16 MiB of Open MPI", ratio("mpi.w.16", "mpi.16")),
        line("mpi", "64 MiB of Open MPI", ratio("mpi.w.64", "mpi.64")),
        line("bbr", "bbr: two channels of iperf3 -C bbr", ratio("bbr.64", "bbr.iperf")),
        line("peers", "16 peers of one", ratio("peers.16", "peers.1")),
        line("peers", "64 peers of one", ratio("peers.64", "peers.1")),
        line("peers", "16 peers, most to least", value("peers.16.spread")),
        line("peers", "64 peers, most to least", value("peers.64.spread")),
        line("idle", "idle channel: KiB", value("idle.rss_bytes", 1 / 1024)),
        line("idle", "idle channel: descriptors", value("idle.descriptors")),
        line("idle", "idle session: wake-ups a second", value("idle.wakeups_per_second")),
        line("idle", "idle session: % of a core", value("idle.cores", 100)),
    ]
