# make demo   a real server, real antagonists, and what Quell does for it, on this machine (about a minute)
# make test   every test that this machine can run; goes on after a failure, and names all of them at its end
# make soak   what is random, for long and with new seeds: properties, plans, 1,000 kills, fuzzing (about an hour)
# make test-kubernetes  pods of a real containerd in the lab, the chart in a real API server, and the plug-in against upstream's runtime
#             side; needs Go and libseccomp-dev, and compiles for half an hour the first time
# make bench  what is fast, measured
# make count  instructions a request on a real kernel, against the committed count (two boots of the lab: minutes)
# make doc    the documentation of the code
# make deb    two Debian packages, installed into an empty root, run, and removed
# make dist   all that a release has (packages, static program, image, SBOM), tried in roots of Debian 12 and 13
# make notice NOTICE: what is linked, by cargo-about
# make lint   formatting, lints, documentation without warnings, licences of what is linked, rooms without circles
# make licences  the licences, advisories and sources of all dependencies, by cargo-deny
CARGO ?= cargo
export PATH := $(PATH):$(HOME)/.cargo/bin

# The same cases each time; new ones are `make soak`'s to find.
export PROPTEST_RNG_SEED ?= 1

.PHONY: demo test test-kubernetes soak bench count doc docs deb dist notice lint licences setup
demo: setup
	$(CARGO) build --locked --profile demo --package quell-cli --bin quell
	./target/demo/quell demo

# The tables of papers/results.md from papers/*/results.toml; says which were made with other assumptions.
docs: setup
	$(CARGO) build --locked --package quell-lab --bin quell-lab
	./target/debug/quell-lab paper --tables papers > target/results.md
	mv target/results.md papers/results.md
	@awk '/^## /{topic=$$2} /^\*\*Assumptions were/{print "stale: " topic; any=1} END{if (!any) print "no table is stale"}' papers/results.md

test: setup
	CARGO=$(CARGO) scripts/every-test

test-kubernetes:
	@scripts/setup --kubernetes
	scripts/kubernetes
	for program in etcd helm kube-apiserver kube-scheduler kube-controller-manager kwok; do scripts/kubernetes $$program || exit; done
	$(CARGO) build -p nri --locked --example log
	$(CARGO) test -p nri --locked --test upstream -- --include-ignored
	$(CARGO) build --locked --profile dist --package quell-cli --bin quell
	$(CARGO) build --locked -p quell-cluster
	QUELL_RESTARTS=10 $(CARGO) test -p quell-cluster --locked --test kubernetes -- --ignored --show-output --test-threads=1
	$(CARGO) test -p quell-lab --locked --features kubernetes --test kubernetes -- --ignored --show-output
	QUELL_PROGRAM=$(CURDIR)/target/dist/quell $(CARGO) test -p quell-cli --locked --test kubernetes -- --ignored --show-output --test-threads=1

# Boots of the lab, those of all soaks together, and the repeated ones.
BOOTS ?= $(HOME)/.cache/quell/lab/boots

# Debian's kernels with sched_ext and sound types; those that the archive has no more are passed over.
KERNELS ?= 6.16.12,6.17.13,6.18.15,6.19.14,7.0.13,7.3.4
REAL_TIME_KERNELS ?= 6.18.15-rt,7.3.4-rt

soak: export QUELL_LAB_BOOTS = $(BOOTS)
soak: setup
	mkdir -p $(dir $(BOOTS))
	env -u PROPTEST_RNG_SEED PROPTEST_CASES=4096 $(CARGO) test -p quell-policy --locked --test properties
	env -u PROPTEST_RNG_SEED PROPTEST_CASES=10000 $(CARGO) test -p quell-policy --locked --test vas
	QUELL_SCX_EVENTS=100000000 $(CARGO) test -p quell-scx-rules --locked simulation::no_invariant
	scripts/kernels $(KERNELS) programs:: fair:: hogs::
	scripts/kernels $(REAL_TIME_KERNELS) programs::
	QUELL_SCX_FORMS=later scripts/kernels 7.3.4 programs:: fair:: hogs::
	QUELL_SCX_FORMS=earliest scripts/kernels 6.16.12 programs:: fair:: hogs::
	QUELL_PLANS=100000 $(CARGO) test -p quell-agent --locked --test plans
	$(CARGO) test -p quell-cli --locked --test prove -- --ignored --nocapture
	$(CARGO) test -p quell-lab --locked --test lab_prove -- --ignored --nocapture
	env -u PROPTEST_RNG_SEED QUELL_REAL_STEPS=300 $(CARGO) test -p quell-linux --locked --test real_members
	QUELL_HARDWARE_COMMANDS=100000 $(CARGO) test -p quell-linux --locked --test hardware random
	env -u PROPTEST_RNG_SEED QUELL_CLUSTERS=10000 $(CARGO) test -p quell-cluster-sim --locked --test cluster
	QUELL_KILL_ROUNDS=1000 $(CARGO) test -p quell-agent --locked --test kill
	$(CARGO) test -p nri --locked --test upstream -- --include-ignored
	QUELL_GAP_RUNS=20 $(CARGO) test -p quell-cli --locked --test gap_births
	$(CARGO) test -p quell-lab --locked --test validate -- --include-ignored --show-output
	$(CARGO) test -p quell-cli --locked --test hostile -- --include-ignored --show-output
	$(CARGO) test -p quell-cli --locked --test injected -- --include-ignored --show-output
	$(CARGO) test -p quell-cli --locked --test own_scheduler -- --ignored --show-output
	$(CARGO) test -p quell-cli --locked --test hotplug -- --include-ignored --show-output
	$(CARGO) test -p quell-scx --locked --test lab -- --include-ignored --skip cookies --show-output
	QUELL_SCX_CHAOS=servers,together $(CARGO) test -p quell-scx --locked --test lab -- chaos:: --include-ignored --show-output
	$(CARGO) test -p quell-guest --locked --test breakpoints -- --include-ignored
	scripts/fuzz 120 configuration api record journal scenario files page
	scripts/repeated-boots $(BOOTS) share

bench: setup
	$(CARGO) bench --workspace --locked

count: setup
	$(CARGO) build --locked --package quell-cli --bin quell
	$(CARGO) test -p quell-lab --locked --test count -- --include-ignored

doc:
	$(CARGO) doc --workspace --no-deps --locked

notice:
	command -v cargo-about >/dev/null || $(CARGO) install --locked cargo-about --features cli
	$(CARGO) about generate --workspace --fail packaging/notice.hbs > NOTICE

deb: setup
	packaging/test-deb $$(CARGO=$(CARGO) packaging/build-deb)

dist:
	scripts/setup --dist
	packaging/test-dist $$(CARGO=$(CARGO) packaging/build-dist)

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy -p quell-lab --features kubernetes --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) test -p quell-checks --locked

licences: setup
	command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses sources advisories

setup:
	@scripts/setup
