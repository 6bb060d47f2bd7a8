"""`compiled`: the names of the functions that Numba has compiled since this was imported."""

from numba.core import event

compiled: list[str] = []


class _Log(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].__name__)

    def on_end(self, event): ...


event.register("numba:compile", _Log())
