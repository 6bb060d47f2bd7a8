"""Loads and stores of some lanes of a vector: the others are not touched."""

import numpy as np

from activerules.ir.foreign.masked import lane_by_lane
from tests.ir.harness import compile_text

MASKED = """
declare <4 x double> @llvm.masked.load.v4f64.p0(ptr, i32, <4 x i1>, <4 x double>)
declare void @llvm.masked.store.v4f64.p0(<4 x double>, ptr, i32, <4 x i1>)
declare <4 x double> @llvm.masked.gather.v4f64.v4p0(<4 x ptr>, i32, <4 x i1>, <4 x double>)
declare void @llvm.masked.scatter.v4f64.v4p0(<4 x double>, <4 x ptr>, i32, <4 x i1>)
define void @moved(ptr %from, ptr %to, ptr %mask) {
  %m = load <4 x i8>, ptr %mask, align 1
  %b = trunc <4 x i8> %m to <4 x i1>
  %x = call <4 x double> @llvm.masked.load.v4f64.p0(ptr %from, i32 8, <4 x i1> %b, <4 x double> splat (double 7.0))
  call void @llvm.masked.store.v4f64.p0(<4 x double> %x, ptr %to, i32 8, <4 x i1> %b)
  ret void
}
define void @scattered(ptr %from, ptr %to, ptr %mask) {
  %m = load <4 x i8>, ptr %mask, align 1
  %b = trunc <4 x i8> %m to <4 x i1>
  %p = load <4 x ptr>, ptr %from, align 8
  %q = load <4 x ptr>, ptr %to, align 8
  %x = call <4 x double> @llvm.masked.gather.v4f64.v4p0(<4 x ptr> %p, i32 8, <4 x i1> %b, <4 x double> splat (double 7.0))
  call void @llvm.masked.scatter.v4f64.v4p0(<4 x double> %x, <4 x ptr> %q, i32 8, <4 x i1> %b)
  ret void
}
"""  # noqa: E501


def run(name, *arrays):
    text = lane_by_lane(MASKED)
    assert "call void @llvm.masked" not in text
    compile_text(text, None).function(name)(*(a.ctypes.data for a in arrays))


def test_k1_memory_of_masked_lanes_is_not_touched():
    """Lanes that are masked have no address at all, or one that holds something else."""
    mask = np.array([1, 0, 1, 0], "u1")
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, -1.0)
    run("moved", x, y, mask)
    assert y.tolist() == [1.0, -1.0, 3.0, -1.0]
    y[:] = -1.0
    pointers = [(one.ctypes.data + 8 * np.arange(4, dtype="u8")) * mask for one in (x, y)]
    run("scattered", *pointers, mask)
    assert y.tolist() == [1.0, -1.0, 3.0, -1.0]


def test_k2_of_two_lanes_at_one_address_the_last_stays():
    mask, x, y = np.array([1, 1, 1, 0], "u1"), np.arange(1.0, 5.0), np.zeros(1)
    pointers = [x.ctypes.data + 8 * np.arange(4, dtype="u8"), np.full(4, y.ctypes.data, "u8")]
    run("scattered", *pointers, mask)
    assert y.tolist() == [3.0]
