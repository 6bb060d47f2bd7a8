"""How many threads run the loops."""

import numba
import pytest


@pytest.fixture(params=[1, min(4, numba.config.NUMBA_NUM_THREADS)], ids="{}_threads".format)
def threads(request):
    numba.set_num_threads(request.param)
    yield request.param
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
