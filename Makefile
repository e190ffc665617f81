# SPDX-License-Identifier: Apache-2.0
# Targets that demonstrate or test install the packages that are missing; build and install do not.
# Meson does the work.
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: all build deps demo demo-tcpx demo-node demo-trace demo-compat test test-full quick \
	mutants bench install site clean format ptx test_tcpx_perf_orchestrator test_tcpx_perf_multi
PREFIX ?= /usr/local
install: export PREFIX := $(PREFIX)

all: build

# Leaves the tool at build/tcpx and the library in build/, without what is missing on this machine.
build:
	@scripts/deps.sh --check build
	@scripts/build.sh build
	@test -x build/tcpx && echo "built: build/tcpx ('make demo' shows it, 'make test' tests it)"
	@scripts/deps.sh --check part

# Installs every package that building and testing want, from scripts/packages.txt.
deps:
	@scripts/deps.sh build part test site
	@echo "deps: ready"

# Moves memory between two processes of this machine over tcp and local; every byte compared.
demo:
	@scripts/deps.sh build part
	@scripts/build.sh build
	@scripts/demo.sh build/tcpx

# The same over the emulator of the TCPX plugin: four channels, host and (played) GPU memory.
demo-tcpx:
	@scripts/deps.sh build part
	@scripts/build.sh build
	@scripts/demo-tcpx.sh build

# Two A3 hosts of 8 GPUs, 8 channels each and 4 NICs, played by the same emulator.
demo-node:
	@scripts/deps.sh build part
	@scripts/build.sh build
	@scripts/demo-node.sh build

# The same program through the GPU's own NIC and through another: where do the two runs diverge?
demo-trace:
	@scripts/deps.sh build part
	@scripts/build.sh build
	@scripts/demo-trace.sh build

# The predecessor's commands on the same two hosts.
demo-compat:
	@scripts/deps.sh build part
	@scripts/build.sh build
	@scripts/demo-compat.sh build

# The predecessor's test programs are wrappers of the tool under their old names.
test_tcpx_perf_orchestrator: wrapper = run_p2p_singleproc.sh
test_tcpx_perf_multi: wrapper = tests/test_tcpx_perf_multi
test_tcpx_perf_orchestrator test_tcpx_perf_multi: build
	@echo "$@: scripts/compat/$(wrapper) server | client IP"

# The short form of every suite. LAST LINE: N passed, N failed, N skipped
test:
	@scripts/deps.sh build part test site
	@scripts/test.sh short

# Below a minute after the build: lint, the fast unit tests, a part of the simulator.
quick:
	@scripts/deps.sh --check build
	@scripts/build.sh build
	@scripts/quick.sh build

# Everything: long simulations, all suites under the sanitizers, fuzzing, mutants.
test-full:
	@scripts/deps.sh build part test site full
	@scripts/test.sh full

# Plants faults one by one and shows that the tests catch each.
mutants:
	@scripts/deps.sh build part test site
	@scripts/mutants.sh

# Installs to PREFIX, below DESTDIR if that is set, and prints what is needed to find it there.
install: build
	@scripts/install.sh build

# The documents and man pages as a site in build/site, which opens without a network.
site:
	@scripts/deps.sh site
	@. scripts/env.sh && python=$$(python_with markdown || echo python3) && \
		"$$python" scripts/site.py build/site

clean:
	rm -rf build build-*

# Writes the PTX of the kernels that builds without nvcc embed; needs nvcc. A lint compares it.
ptx:
	@scripts/ptx.py

# Formats every C file; the lint of the same name checks it.
format:
	@git ls-files -co --exclude-standard -- '*.[ch]' '*.[ch]pp' | xargs -r clang-format -i
