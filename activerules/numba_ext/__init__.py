"""Where the engine meets Numba: the only package that uses what Numba does not document."""

from activerules.numba_ext.codegen import versions

# before any module here touches what another Numba may not have
versions.check()
