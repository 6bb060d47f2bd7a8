"""The commands of the Makefile against every supported Python: `nox`, or `nox -s tests-3.12`."""

import nox

PYTHONS = ["3.11", "3.12", "3.13"]

nox.options.default_venv_backend = "venv"


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests."""
    session.install("--editable", ".[tests]")
    session.run("python", "-m", "pytest", "-n", "2", "--dist", "worksteal", *session.posargs)


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Run ruff and pyright."""
    session.install("--editable", ".[lint]")
    session.run("ruff", "check", ".")
    session.run("pyright", "--pythonpath", session.virtualenv.location + "/bin/python")


@nox.session(python=PYTHONS[0])
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    session.install("--editable", ".[docs]")
    session.run("python", "-m", "sphinx", "-W", "-n", "-b", "html", "docs", "build/docs")


@nox.session(python=PYTHONS[0])
def bench(session: nox.Session) -> None:
    """Measure gradient / primal ratios."""
    session.install("--editable", ".[bench]")
    session.run("python", "-m", "benchmarks.run", *session.posargs)
