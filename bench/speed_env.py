# SPDX-License-Identifier: Apache-2.0
"""Where the measurements run: network namespaces, peers that are installed, child processes."""
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time

LIMIT = 60  # seconds of one program
TICKS = os.sysconf("SC_CLK_TCK")


class Missing(Exception):
    """A peer that is not installed, or a machine that cannot do it."""


def sh(*argv):
    subprocess.run(argv, check=True, capture_output=True, text=True)


class Env:
    """Namespaces: lo (cubic), bbr (loopback), and a, b joined by veth with MTU 1500 (cubic).

    With own_network there are none: what would run in lo runs in this process's network."""

    def __init__(self, build, quick, own_network=False):
        self.build, self.quick, self.own_network = build, quick, own_network
        self.tcpx = os.path.join(build, "tools", "tcpx")
        self.tag = f"hs{os.getpid()}"
        self.spaces, self.children = [], []
        self.temp = tempfile.mkdtemp(prefix="speed-")
        self.veth_server = None
        self.ucx = self.find_ucx()

    # namespaces

    def name(self, space):
        return f"{self.tag}-{space}"

    def open(self):
        if self.own_network:
            self.has_bbr = False
            return
        for space in ("lo", "bbr", "a", "b"):
            sh("ip", "netns", "add", self.name(space))
            self.spaces.append(space)
            sh("ip", "-n", self.name(space), "link", "set", "lo", "up")
        self.loopback("lo", "cubic")
        self.has_bbr = self.try_loopback("bbr", "bbr")
        sh("ip", "link", "add", "veth0", "netns", self.name("a"), "type", "veth",
           "peer", "name", "veth0", "netns", self.name("b"))
        for space, last in (("a", 1), ("b", 2)):
            ns = self.name(space)
            sh("ip", "-n", ns, "addr", "add", f"10.99.0.{last}/24", "dev", "veth0")
            sh("ip", "-n", ns, "link", "set", "veth0", "mtu", "1500", "up")
            sh("ip", "-n", ns, "route", "replace", "10.99.0.0/24", "dev", "veth0", "proto",
               "kernel", "scope", "link", "src", f"10.99.0.{last}", "congctl", "cubic")
        if shutil.which("iperf3"):
            for space in ("lo", "bbr", "b"):
                self.start(space, "iperf3", "-s", "-p", "5999")
        time.sleep(0.3)

    def loopback(self, space, congestion):
        for target in ("127.0.0.1", "127.0.0.0/8"):
            sh("ip", "-n", self.name(space), "route", "replace", "local", target, "dev", "lo",
               "table", "local", "proto", "kernel", "scope", "host", "src", "127.0.0.1",
               "congctl", congestion)

    def try_loopback(self, space, congestion):
        try:
            self.loopback(space, congestion)
            return True
        except subprocess.CalledProcessError:
            return False

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.terminate()
            child.wait()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", self.name(space)], capture_output=True)
        shutil.rmtree(self.temp, ignore_errors=True)

    def own_cpu(self):
        """CPU seconds of all that was started here, servers that still run included."""
        waited = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = waited.ru_utime + waited.ru_stime
        for child in self.children:
            if child.returncode is None:
                with open(f"/proc/{child.pid}/stat", encoding="ascii") as f:
                    words = f.read().rsplit(")", 1)[1].split()
                total += sum(int(words[i]) for i in (11, 12, 13, 14)) / TICKS
        return total

    # programs

    def argv(self, space, argv):
        if self.own_network:
            if space != "lo":
                raise Missing("needs network namespaces")
            return list(map(str, argv))
        return ["ip", "netns", "exec", self.name(space), *map(str, argv)]

    def environment(self, more):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("TCPX_", "UCX_"))}
        return {**keep, **(more or {})}

    def start(self, space, *argv, env=None):
        child = subprocess.Popen(self.argv(space, argv), stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True,
                                 env=self.environment(env))
        self.children.append(child)
        return child

    def run(self, space, *argv, env=None):
        done = subprocess.run(self.argv(space, argv), capture_output=True, text=True,
                              timeout=LIMIT, env=self.environment(env))
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise RuntimeError(f"{os.path.basename(str(argv[0]))} ended with "
                               f"{done.returncode}: {last[:160]}")
        return done.stdout

    def program(self, name, *argv, space="lo"):
        out = self.run(space, os.path.join(self.build, "bench", name), *argv)
        return json.loads(out)

    def seconds(self, full):
        return full * 0.4 if self.quick else full

    # tcpx perf: {size: row}

    def perf(self, *argv, time_s=0.8, space="lo", transport="tcp"):
        where = ["--loopback"]
        if space == "a":
            where = [self.serve(), "--insecure"]
        out = self.run(space, self.tcpx, "perf", *where, "--transport", transport, "--time",
                       self.seconds(time_s), "--json", "-", *argv)
        out = json.loads(out)
        rows, used = out["results"], out["path"]["congestion"]
        if transport == "tcp" and used != ("bbr" if space == "bbr" else "cubic"):
            raise RuntimeError(f"congestion control {used}")
        if any(row["wrong_bytes"] for row in rows):
            raise RuntimeError("wrong bytes")
        return {row["size"]: row for row in rows}

    def serve(self):
        if not self.veth_server:
            child = self.start("b", self.tcpx, "serve", "--insecure", "--quiet", "--bind",
                               "10.99.0.2", "--port", "0")
            self.veth_server = child.stdout.readline().split()[1]
        return self.veth_server

    # peers

    def iperf(self, *argv, space="lo", to="127.0.0.1"):
        if not shutil.which("iperf3"):
            raise Missing("iperf3 not installed")
        out = self.run(space, "iperf3", "-c", to, "-p", "5999", "-t", "1", "-J", *argv)
        end = json.loads(out)["end"]
        return end["sum_received"]["bits_per_second"] / 8

    def find_ucx(self):
        """{version: (program, environment)}: Debian's, and PyPI's where Python finds it."""
        found = {}
        places = [(shutil.which("ucx_perftest"), {})]
        spec = importlib.util.find_spec("libucx")
        for home in (spec.submodule_search_locations or []) if spec else []:
            places.append((os.path.join(home, "bin", "ucx_perftest"),
                           {"LD_LIBRARY_PATH": os.path.join(home, "lib")}))
        for path, env in places:
            if not path or not os.path.exists(path):
                continue
            info = os.path.join(os.path.dirname(path), "ucx_info")
            done = subprocess.run([info, "-v"], capture_output=True, text=True,
                                  env={**os.environ, **env})
            version = re.search(r"ersion[: ]+(\d+\.\d+\.\d+)", done.stdout)
            found[version[1] if version else "?"] = (path, env)
        return found

    def ucx_bandwidth(self, version, test, size, count, tuned):
        path, env = self.ucx[version]
        env = {**env, "UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        if tuned:
            env.update(UCX_TCP_TX_SEG_SIZE="256K", UCX_TCP_RX_SEG_SIZE="256K")
        self.port = getattr(self, "port", 15000) + 1
        server = self.start("lo", path, "-p", self.port, env=env)
        try:
            time.sleep(0.2)
            out = self.run("lo", path, "127.0.0.1", "-p", self.port, "-t", test, "-s", size,
                           "-n", count, "-w", max(20, count // 10), "-f", env=env)
        finally:
            server.terminate()
            server.wait()
        rows = [line.split() for line in out.splitlines() if re.match(r"(Final:)?\s*\d+ ", line)]
        numbers = [float(word) for word in rows[-1] if re.match(r"[\d.]+$", word)]
        return numbers[-3] * 2 ** 20  # ... bandwidth average, overall, messages average, overall

    def mpi_bandwidth(self, total, sizes):
        if not shutil.which("mpicc") or not shutil.which("mpirun"):
            raise Missing("Open MPI not installed")
        program = os.path.join(self.temp, "mpi_bw")
        if not os.path.exists(program):
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_bw.c")
            sh("mpicc", "-O2", "-o", program, source)
        out = self.run("lo", "mpirun", "-np", "2", "--oversubscribe", "--allow-run-as-root",
                       "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                       "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo",
                       program, total, *sizes)
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return {row["size"]: row["bytes_per_second"] for row in rows}


def busy_seconds():
    """CPU seconds of the whole machine since its start."""
    with open("/proc/stat", encoding="ascii") as f:
        words = [int(word) for word in f.readline().split()[1:]]
    return (sum(words) - words[3] - words[4]) / TICKS
