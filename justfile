# `just` lists these; each is one command that also runs without just.

default:
    @just --list

# Install for development, with tests and documentation.
setup:
    pip install -e ".[test,docs]"

# Errors, language, layouts, emitted CUDA, layers: about a minute.
quick:
    pytest -q tests/errors tests/language tests/algebra tests/base tests/cuda tests/test_layers.py

# All tests that need no GPU.
test:
    pytest -q -n 2

lint:
    ruff check .
    ruff format --check .

types:
    pyright

# Build the site into build/site, links checked.
docs:
    rm -rf build/docs
    python .ci/site.py build/docs
    @echo build/docs/site/index.html

# Everything that must hold without a GPU, in an environment of its own.
ci:
    .ci/run
