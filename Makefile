# The two commands of a new user: `make demo` and `make test`. Everything they need is installed into .venv
# from the hash-checked locks in locks/; nothing is installed by hand.

PYTHON ?= python3
ARGS   ?=
DIST   ?= dist
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
# One version on all machines, so that a lock resolves and installs the same everywhere.
UV_VERSION := 0.13.7

RUN_UV  := sh tools/run-uv $(UV)
COMPILE := $(RUN_UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
INSTALL := $(RUN_UV) pip install --quiet --python $(BIN)/python

# The web application: its packages, the document its types are generated from, and what is served.
NODE    := sh $(CURDIR)/tools/run-node $(abspath $(VENV))
BIOME   := cd web && $(NODE) node node_modules/@biomejs/biome/bin/biome
STATIC  := src/callsheet/web/static
WEB     := web/.build
CLIENT  := clients/typescript
CLIENT_BIOME := cd $(CLIENT) && $(NODE) node ../../web/node_modules/@biomejs/biome/bin/biome
API_SOURCES := $(shell find src/callsheet -name '*.py' -not -path 'src/callsheet/cli/*' -not -path 'src/callsheet/worker/*') \
	src/callsheet/plumbing/http/openapi_texts.toml tools/write_openapi.py
GENERATED := -not -name openapi.json -not -name schema.ts -not -path web/src/api/fields.ts -not -path $(CLIENT)/src/codes.ts
WEB_SOURCES := $(shell find web/src web/build web/public $(CLIENT)/src -type f $(GENERATED) 2>/dev/null) \
	$(CLIENT)/package.json $(CLIENT)/tsconfig.json web/index.html web/vite.config.ts web/tsconfig.json

.PHONY: help demo test test-all test-pgbouncer test-postgres tests audit lint types fmt bench chaos chaos-patroni lock docs package clean install-server install-dev web web-tests

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# What is compiled is kept, whatever the shell says: compiling everything again takes longer than the rest of the start.
demo: web ## Start everything on embedded parts and show the product working (ARGS=--exit to stop by itself)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/callsheet demo $(ARGS)

# Four processes, each with its own PostgreSQL, that have files of their own (tests/support/run/process_shares.py). More
# than there are cores, because a test waits a fifth of its time for processes and servers that it started.
TEST_PROCESSES := -n 4 --dist each
# In seconds. A test that hangs fails and shows where it waits; one that blocks its process ends that process.
HANG_LIMITS := --timeout 300 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true --max-worker-restart 0
# The verdict is the same in every shell: the tests do not see the variables of a user.
BARE := env -i HOME="$$HOME" PATH="$$PATH" LANG=C.UTF-8

test: install-dev web ## Run every check CI runs: lint, types, import rules, tests (ARGS="-k storage" to choose)
	@$(MAKE) -s -j 3 lint types web-tests tests

tests: install-dev
	@$(BARE) $(BIN)/pytest $(TEST_PROCESSES) $(HANG_LIMITS) -m "not thorough" $(ARGS)

web-tests: web
	@cd web && $(NODE) node node_modules/vitest/vitest.mjs run --reporter=dot

# What it installs to try it comes from where this machine gets its packages, so it sees the settings of the shell.
test-all: install-dev web ## The same with the tests that take long: chaos, fuzzing, benchmarks, a million rows, packages, pages
	@$(BIN)/python -m tools.test_all $(ARGS)

# All integration tests, without those that name, copy, migrate or examine the databases of a server themselves.
AT_THE_SERVER := $(patsubst %,tests/integration/test_%.py,cli doctor migrate_all pool_owners restores rolling_upgrade secret_rotation)
BEHIND_A_POOLER := tests/pooler $(patsubst %,tests/interleaving/test_%_races.py,lease submit) \
	$(filter-out $(AT_THE_SERVER),$(wildcard tests/integration/test_*.py))
PGBOUNCER ?= pgbouncer
test-pgbouncer: install-dev ## Run the integration tests through a PgBouncer in both modes (PGBOUNCER=program)
	@$(BARE) $(BIN)/pytest $(HANG_LIMITS) -n 2 --dist loadfile -m "not thorough" --pgbouncer "$(PGBOUNCER)" --pooler session $(BEHIND_A_POOLER) $(ARGS)
	@$(BARE) $(BIN)/pytest $(HANG_LIMITS) -n 2 --dist loadfile -m "not thorough" --pgbouncer "$(PGBOUNCER)" --pooler transaction $(BEHIND_A_POOLER) $(ARGS)

# Debian, Ubuntu and the packages of PostgreSQL install the programs of each version there.
VERSION ?= 15
POSTGRES_BIN ?= /usr/lib/postgresql/$(VERSION)/bin
ON_EACH_VERSION := tests/interleaving tests/integration/test_migrations.py tests/integration/test_statements.py \
	tests/integration/test_lease_lifecycle.py tests/integration/test_ledger.py tests/integration/test_submission.py \
	tests/integration/test_crashes.py $(wildcard tests/integration/test_*_plans.py)
test-postgres: install-dev ## Run core, plans and migrations on another PostgreSQL (VERSION=15, or POSTGRES_BIN=directory)
	@$(BARE) $(BIN)/pytest $(HANG_LIMITS) -n 2 --dist loadfile -m "not thorough" --postgres-bin "$(POSTGRES_BIN)" $(ON_EACH_VERSION) $(ARGS)

audit: install-dev ## Check the locked packages for known vulnerabilities; needs access to the advisories
	@$(BIN)/python -m tools.audit

lint: install-dev ## Check style, security rules, words, SQL, the web application and which room may import which
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tools.check_words
	@$(BIN)/python -m tools.check_plurals
	@$(BIN)/python -m tools.check_sql
	@$(BIOME) check --error-on-warnings
	@$(CLIENT_BIOME) check --error-on-warnings
	@$(BIN)/python -m tools.measure_house

types: install-dev web ## Check types, strictly, also those of the examples in the documentation
	@$(BIN)/mypy
	@$(NODE) node web/node_modules/typescript-native/bin/tsc --project $(CLIENT)/tests
	@$(BIN)/python -m tools.check_examples

fmt: install-dev ## Format the code and fix what can be fixed automatically
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(BIOME) check --write
	@$(CLIENT_BIOME) check --write

bench: install-dev ## Run the benchmarks (ONLY=name for one); results in bench/results/latest.json
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

chaos: install-dev ## Crash, race and kill core and runs for about twenty minutes (ARGS="--chaos-seed N" repeats a kill test)
	@$(BIN)/pytest tests/chaos --chaos long $(ARGS)

chaos-patroni: install-dev ## Fail over a Patroni cluster with etcd and HAProxy (POSTGRES_BIN=directory); says what to install
	@$(BARE) $(BIN)/pytest $(HANG_LIMITS) -s --patroni "$(POSTGRES_BIN)" tests/chaos/test_patroni.py $(ARGS)
	@$(BIN)/pytest -n 2 tests/unit tests/lightbox/test_hostile_requests.py --hypothesis-profile exploring

docs: install-dev ## Write the generated pages of docs/ again
	@$(BIN)/python -m tools.generate_docs

package: web ## Build the wheel and the source distribution into dist/
	@$(RUN_UV) build --quiet --no-build-isolation --offline --python $(BIN)/python --out-dir $(DIST)
	@ls $(DIST)

# With the installation, so that the document is made while npm still fetches.
web: $(UV) ## Build the web application and the TypeScript client if they have changed
	@$(MAKE) -s -j 3 $(VENV)/.server $(STATIC)/.built

lock: $(UV) ## Resolve the dependencies again into locks/
	$(COMPILE) --group node -o locks/node.txt $(ARGS)
	$(COMPILE) pyproject.toml --extra server --extra worker --extra lightbox --group build -o locks/server.txt $(ARGS)
	$(COMPILE) pyproject.toml --extra server --extra worker --extra lightbox --extra kubernetes --group build --group audit --group bench --group lint --group test \
		-c locks/server.txt -o locks/dev.txt $(ARGS)

clean: ## Remove what was built (the data directory .callsheet stays)
	rm -rf $(VENV) dist $(STATIC) $(WEB) $(CLIENT)/dist web/node_modules web/browser/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The packages of npm are fetched beside those of Python.
install-server: $(UV)
	@$(MAKE) -s -j 2 $(VENV)/.server $(WEB)/packages
install-dev: $(UV)
	@$(MAKE) -s -j 3 $(VENV)/.dev $(WEB)/packages $(WEB)/browser

$(UV): tools/create-venv
	@PYTHON="$(PYTHON)" sh tools/create-venv $(VENV) $(UV_VERSION)
	@touch $(UV)

$(VENV)/.node: $(UV) locks/node.txt
	@$(INSTALL) --require-hashes -r locks/node.txt
	@touch $@

# After Node, because uv lets one installation at a time into an environment.
$(VENV)/.server: $(UV) locks/server.txt pyproject.toml | $(VENV)/.node
	@$(INSTALL) --require-hashes -r locks/server.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.server locks/dev.txt
	@$(INSTALL) --require-hashes -r locks/dev.txt
	@touch $@

$(WEB)/packages: web/package-lock.json web/.npmrc | $(VENV)/.node
	@cd web && $(NODE) npm ci >/dev/null
	@mkdir -p $(WEB) && touch $@

# A browser for the tests, where this machine has none.
$(WEB)/browser: web/browser/package-lock.json web/browser/unpack.mjs | $(VENV)/.node
	@sh tools/find-chromium >/dev/null || (cd web/browser && $(NODE) npm ci >/dev/null && $(NODE) node unpack.mjs)
	@mkdir -p $(WEB) && touch $@

# Written only where the document has changed, so that a change elsewhere in Python builds no web application.
$(WEB)/document: $(API_SOURCES) | $(VENV)/.server
	@$(BIN)/python -m tools.write_openapi web/src/api/openapi.json $(CLIENT)/src/codes.ts
	@mkdir -p $(WEB) && touch $@
web/src/api/openapi.json $(CLIENT)/src/codes.ts: $(WEB)/document ;

$(STATIC)/.built: web/src/api/openapi.json $(CLIENT)/src/codes.ts $(WEB_SOURCES) $(WEB)/packages
	@cd web && $(NODE) node build/run.mjs
	@touch $@
