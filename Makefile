# SPDX-License-Identifier: BSD-2-Clause
# Verbena. `make help` lists the targets.
#
# Every target installs by apt the packages that it needs and does not find, as root or
# through sudo, before it does anything else; where all is there it asks for neither
# network nor privilege. Go, make, git and the certificates of ca-certificates must be
# there.

GO       ?= go
export GO
# A count, not a time: when a time ends, go test now and then fails by its own deadline (go.dev/issue/75804).
FUZZTIME ?= 50000x

# Packages whose goroutines share memory: worth the race detector's price.
CONCURRENT = /(internal/(engine|sys|ntb/backend|stats|mem|queue)|verbs|rdmacm)(/|$$)
# Codecs, machines and simulations: they must not depend on the byte order.
PORTABLE   = /(ib|internal/(wire|mem|queue|roce|cm|ntb/(channel|rdma|window)|simnet|flows|testkit))(/|$$)
FOREIGN    = linux/arm64 darwin/arm64 freebsd/amd64 windows/amd64

.PHONY: help apps pyverbs needs install deb build cabi run test lint cross bigendian race unit xdp capi interop bench fuzz clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

# What the command and the libraries say that they are.
VERSION ?= $(shell scripts/version)

build: cabi ## leave the command in bin/verbena, the libraries in lib/verbena
	$(GO) build -ldflags '-X verbena/internal/version.stamp=$(VERSION)' -o bin/verbena ./cmd/verbena

CABI_NEEDS = gcc libc6-dev libibverbs-dev librdmacm-dev

cabi: ## the libraries that unmodified verbs applications load
	@scripts/need $(CABI_NEEDS)
	@$(MAKE) --no-print-directory -C cabi VERSION='$(VERSION)'

DEVICE ?= roce

run: ## two processes do RDMA on this machine: rping, then bandwidth and latency; DEVICE=iwarp and others
	@$(MAKE) -s --no-print-directory build
	@scripts/demo bin/verbena $(DEVICE)

test: needs-test lint cross bigendian race unit xdp capi ## all tests but those that need a peer's kernel

lint: ## gofmt, go vet, staticcheck, deadcode and govulncheck
	@scripts/need $(CABI_NEEDS)
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); \
	if [ -n "$$unformatted" ]; then echo "gofmt these: $$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags policy ./internal/engine/... ./internal/transport/...
	$(GO) vet -tags interop ./interop/...
	@unformatted=$$(gofmt -l cabi); if [ -n "$$unformatted" ]; then echo "gofmt these: $$unformatted" >&2; exit 1; fi
	CGO_ENABLED=1 $(GO) vet -tags cabi ./cabi/...
	$(GO) vet -tags apps ./apps
	@GO='$(GO)' scripts/lint

cross: ## the types of the pure Go part are right elsewhere, tests included
	@GO='$(GO)' scripts/cross $(FOREIGN)

bigendian: ## the pure Go part builds on s390x, and the portable packages' tests pass, emulated
	@scripts/need qemu-user
	CGO_ENABLED=0 GOARCH=s390x $(GO) vet ./...
	CGO_ENABLED=0 GOARCH=s390x $(GO) test -short -exec qemu-s390x $$($(GO) list ./... | grep -E '$(PORTABLE)')

race: ## the concurrent packages' tests with the race detector
	@scripts/need gcc libc6-dev
	CGO_ENABLED=1 $(GO) test -race $$($(GO) list ./... | grep -E '$(CONCURRENT)')

UNIT_NEEDS = chromium tshark iperf3 iputils-ping iproute2 util-linux

unit: ## every package's tests
	@scripts/need $(UNIT_NEEDS)
	path=$$(scripts/unpacked prometheus) && PATH="$$PATH:$$path" $(GO) test ./...

xdp: ## the tests of RoCE and TRP over AF_XDP, on a veth pair; says which are not run, and why
	@set -e; for p in roce trp; do \
	  (cd internal/transport/$$p && VERBENA_TEST_XDP=1 $(GO) test -count=1); done

CAPI_NEEDS = clang libclang-rt-dev valgrind

capi: needs-capi cabi ## the libraries' tests, from C
	path=$$(scripts/unpacked prometheus-node-exporter) && PATH="$$PATH:$$path" CGO_ENABLED=1 $(GO) test -tags cabi -timeout 20m ./cabi/...

INTEROP_NEEDS = gcc libc6-dev libibverbs-dev librdmacm-dev rdmacm-utils ibverbs-utils ibverbs-providers perftest qperf \
  rdma-core iproute2 busybox util-linux tcpdump tshark iperf3 qemu-system-x86

interop: ## against Linux's rdma_rxe in guests; builds their kernel once, in 4 to 9 minutes
	@scripts/need $(INTEROP_NEEDS)
	@interop/kernel/build debian
	@interop/kernel/build uml
	$(GO) test -tags interop -count=1 -p 1 -timeout 25m -v ./interop/...

APPS_NEEDS = $(CABI_NEEDS) coreutils iproute2 util-linux busybox ibverbs-utils infiniband-diags rdmacm-utils librdmacm1 perftest qperf \
  fio libfabric-bin ucx-utils openmpi-bin libopenmpi-dev python3-pyverbs

# In its folder. As root they run as nobody: it is ordinary users that they are for.
apps: needs-apps build ## Debian's verbs applications, unmodified, over our libraries; prints results
	$(GO) test -c -tags apps -o bin/apps.test ./apps
	cd apps && ../scripts/unprivileged ../bin/apps.test -test.timeout 20m $(APPS_ARGS)

PYVERBS_NEEDS = $(CABI_NEEDS) cmake ninja-build cython3 python3-dev libnl-3-dev libnl-route-3-dev pkgconf debian-archive-keyring

pyverbs: needs-pyverbs build ## the tests of rdma-core's newest release over our libraries; builds them once, in some minutes
	scripts/pyverbs bin/verbena $(DEVICES)

needs: ## install the packages for test, apps and interop at once
	@scripts/need $(sort $(TEST_NEEDS) $(APPS_NEEDS) $(INTEROP_NEEDS))

TEST_NEEDS = $(CABI_NEEDS) $(CAPI_NEEDS) qemu-user $(UNIT_NEEDS)

# The first prerequisite of a target: nothing is found missing after minutes of work.
.PHONY: needs-test needs-capi needs-apps needs-pyverbs needs-deb needs-bench
needs-test: ; @scripts/need $(sort $(TEST_NEEDS))
needs-capi: ; @scripts/need $(sort $(CABI_NEEDS) $(CAPI_NEEDS))
needs-apps: ; @scripts/need $(sort $(APPS_NEEDS))
needs-pyverbs: ; @scripts/need $(sort $(PYVERBS_NEEDS))
needs-deb: ; @scripts/need $(sort $(CABI_NEEDS) binutils dpkg-dev lintian)
needs-bench: ; @scripts/need $(sort $(CABI_NEEDS) ibverbs-utils perftest ucx-utils libfabric-bin rdmacm-utils openmpi-bin libopenmpi-dev linux-perf iproute2 util-linux)

PREFIX ?= /usr/local

install: ## the command, the libraries, completions and the manual page into DESTDIR/PREFIX
	@[ -x bin/verbena ] && [ -e lib/verbena/librdmacm.so.1 ] || $(MAKE) --no-print-directory build
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' packaging/install

deb: needs-deb build ## a Debian package in bin/, unpacked and tried
	packaging/deb bin

bench: needs-bench build ## measure beside the machine's own sockets and UCX's and libfabric's tcp; leaves bench.json, bin/charts
	$(GO) build -ldflags '-X verbena/internal/version.stamp=$(VERSION)' -o bin/verbena-bench ./cmd/verbena-bench
	bin/verbena-bench -o bench.json
	bin/verbena-bench draw --dir bin/charts bench.json

fuzz: ## every fuzz target with FUZZTIME inputs (50000x)
	@set -e; for package in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	    echo "fuzz $$package $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

clean: ## remove everything built here; the guests' kernels stay in ~/.cache/verbena
	rm -rf bin lib bench.json
