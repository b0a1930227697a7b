VENV ?= .venv
STAGES ?=
DEMO_FLAGS ?=
export VENV

.PHONY: help setup demo test lint clean

help: ## show this text
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

setup: ## install what is missing and the package itself into .venv (8 minutes the first time)
	scripts/setup.sh

demo: setup ## train a recommender on stock Horovod and on omniccl (DEMO_FLAGS='--epochs 1 ...')
	"$(VENV)/bin/python" scripts/demo.py $(DEMO_FLAGS)

test: ## run all tests (STAGES='lint native arm asan tsan python parallel')
	scripts/setup.sh --dev
	scripts/test.sh $(STAGES)

lint: ## check format, types and spelling
	scripts/setup.sh --dev --deps-only
	scripts/test.sh lint

clean: ## remove what was built; .venv stays
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
