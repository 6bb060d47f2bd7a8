"""Where the engine meets Numba: beside `values`, the only package that uses what Numba does
not document (docs/numba_private.md).
"""

from activerules.numba_ext.codegen import numba_versions

# before any module here touches what another Numba may not have
numba_versions.check()
