"""Targets of the Makefile under every supported Python: `nox`, or `nox -s test-3.12 -- -k solve`.

What each target runs is said in the Makefile, and what continuous integration runs in `.ci/run`.
"""

import nox

PYTHONS = ["3.11", "3.12", "3.13"]

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["test", "lint", "docs"]


def make(session: nox.Session, target: str) -> None:
    """Run a target in the environment of a session, with what follows `--` as ARGS."""
    arguments = f"ARGS={' '.join(session.posargs)}"
    session.run("make", target, f"VENV={session.virtualenv.location}", arguments, external=True)


@nox.session(python=PYTHONS)
def test(session: nox.Session) -> None:
    """Run the tests."""
    make(session, "test")


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Run ruff and pyright."""
    make(session, "lint")


@nox.session(python=PYTHONS[0])
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    make(session, "docs")


@nox.session(python=PYTHONS[0])
def bench(session: nox.Session) -> None:
    """Measure gradient / primal ratios."""
    make(session, "bench")
