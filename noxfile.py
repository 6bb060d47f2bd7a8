"""Targets of the Makefile under every supported Python and every supported Numba: `nox`, or
`nox -s test-3.12 -- -k solve`, `nox -s "numba-3.11(numba='0.65')"`.

What each target runs is said in the Makefile, and what continuous integration runs in `.ci/run`.
"""

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
NUMBAS = ["0.62", "0.63", "0.64", "0.65", "0.66", "0.67"]  # `test` installs the newest

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["test", "numba", "bridges", "lint", "docs"]


def make(session: nox.Session, target: str, *given: str) -> None:
    """Run a target in the environment of a session, with what follows `--` as ARGS."""
    arguments = f"ARGS={' '.join(session.posargs)}", *given
    session.run("make", target, f"VENV={session.virtualenv.location}", *arguments, external=True)


@nox.session(python=PYTHONS)
def test(session: nox.Session) -> None:
    """Run the tests."""
    make(session, "test")


@nox.session(python=PYTHONS[0])
@nox.parametrize("numba", NUMBAS)
def numba(session: nox.Session, numba: str) -> None:
    """Run the tests with the last patch of a release of Numba."""
    make(session, "test", f"NUMBA={numba}.*")


@nox.session(python=PYTHONS[0], venv_backend="none")
@nox.parametrize("target", ["bridges", "pymc"])
def bridges(session: nox.Session, target: str) -> None:
    """Run the tests and pages of the packages that are optional, in environments of their own."""
    session.run("make", target, f"ARGS={' '.join(session.posargs)}", external=True)


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
