"""Rows for the NumPy features that Numba supports."""

NUMPY = """
# Creating arrays
np.array                 np.array([s, t, s * t])
np.array (2-D)           np.array([[s, t], [t, s * s]])
np.array (of an array)   np.array([v * v for v in x])
np.asarray               np.asarray(x) ** 2
np.asarray_chkfinite     np.asarray_chkfinite(x) ** 2
np.ascontiguousarray     np.ascontiguousarray(a.T) ** 2
np.asfortranarray        np.asfortranarray(a) ** 2
np.zeros                 z = np.zeros(6); z += x; z * z
np.zeros_like            z = np.zeros_like(x); z[1:] = x[:-1]; z * x
np.ones                  np.ones(6) * x * x
np.ones_like             np.ones_like(x) * s
np.empty                 z = np.empty(6); z[:] = x; z * z
np.empty_like            z = np.empty_like(x); z[:] = s; z * x
np.full                  np.full(4, s) ** 2
np.full_like             np.full_like(x, s) * x
np.arange                np.arange(6) * x * x
np.arange (float)        np.arange(s, s + 2.0, 0.5) ** 2
np.linspace              np.linspace(s, t, 5) ** 2
np.logspace              np.logspace(s, t, 4)
np.geomspace             np.geomspace(s, t, 4)
np.eye                   np.eye(4) * m
np.identity              np.identity(4) @ m
np.diag (to matrix)      np.diag(x) ** 2
np.diag (of matrix)      np.diag(m) ** 2
np.diagflat              np.diagflat(x) ** 2
np.tri                   np.tri(4) * m
np.tril                  np.tril(m) ** 2
np.triu                  np.triu(m) ** 2
np.tril_indices          r, q = np.tril_indices(4); weigh(r) * s + weigh(q)
np.tril_indices_from     r, q = np.tril_indices_from(m); weigh(r) * s + weigh(q)
np.triu_indices          r, q = np.triu_indices(4); weigh(r) * s + weigh(q)
np.triu_indices_from     r, q = np.triu_indices_from(m); weigh(r) * s + weigh(q)
np.vander                np.vander(x)
np.indices               np.indices((2, 3)) * s
np.copy                  np.copy(x) ** 2
np.frombuffer            np.frombuffer(x) ** 2
np.bartlett              np.bartlett(6) * x
np.blackman              np.blackman(6) * x
np.hamming               np.hamming(6) * x
np.hanning               np.hanning(6) * x
np.kaiser                np.kaiser(6, 2.0) * x

# Attributes and methods of arrays
ndarray.T                a.T * s
ndarray.shape            x.shape[0] * s
ndarray.size             x.size * s
ndarray.ndim             a.ndim * s
ndarray.strides          a.strides[0] * s
ndarray.itemsize         a.itemsize * s
ndarray.nbytes           a.nbytes * s
ndarray.dtype            np.zeros(3, x.dtype) + s
ndarray.flags            x.flags.c_contiguous * s
ndarray.flat             z = 0.0; for v in a.flat: z += v * v; z
ndarray.flat (index)     a.flat[5] * a.flat[1]
ndarray.flat (write)     z = a * a; z.flat[5] = s; z
ndarray.real             x.real * s
ndarray.imag             x.imag * s
ndarray.astype           x.astype(np.float32) * s
ndarray.astype (int)     x.astype(np.int64) * s
ndarray.copy             z = x.copy(); z[0] = s; z * x
ndarray.fill             z = np.empty(4); z.fill(s); z * z
ndarray.flatten          a.flatten() ** 2
ndarray.item             np.full(1, s).item() * t
ndarray.ravel            a.ravel() ** 2
ndarray.ravel (of F)     a.T.ravel() ** 2
ndarray.repeat           x.repeat(2)
ndarray.reshape          x.reshape(2, 3) ** 2
ndarray.reshape (-1)     a.reshape(-1, 2) ** 2
ndarray.sort             z = x * 1.0; z.sort(); z
ndarray.argsort          x.argsort()
ndarray.sum              x.sum() ** 2
ndarray.sum (axis)       a.sum(axis=1) ** 2
ndarray.prod             x.prod()
ndarray.mean             x.mean() ** 2
ndarray.var              x.var()
ndarray.std              x.std()
ndarray.min              x.min() ** 2
ndarray.max              x.max() ** 2
ndarray.argmin           x.argmin() * s
ndarray.argmax           x.argmax() * s
ndarray.ptp              x.ptp()
ndarray.clip             x.clip(-1.0, 1.0)
ndarray.conj             x.conj() * s
ndarray.conjugate        x.conjugate() * s
ndarray.cumsum           x.cumsum()
ndarray.cumprod          x.cumprod()
ndarray.dot              x.dot(y)
ndarray.take             x.take(k)
ndarray.transpose        a.transpose() * s
ndarray.transpose (axes)  c.transpose(2, 0, 1) * s
ndarray.view             x.view(np.float64) ** 2
ndarray.all              (x > 0.0).all() * s
ndarray.any              (x > 0.0).any() * s
ndarray.nonzero          flags.nonzero()[0] * s
np.shape                 np.shape(a)[1] * s
np.size                  np.size(a) * s
np.real                  np.real(x) * s
np.imag                  np.imag(x) * s
np.isscalar              np.isscalar(s) * s

# Indexing and views
x[i]                     x[2] * x[-1]
x[i] = v                 z = x * x; z[2] = s; z
x[i] += v                z = x * x; z[2] += s * t; z
a[i, j]                  a[1, 2] * a[-1, -2]
a[i]                     a[1] * a[2]
x[i:j]                   x[1:4] * x[2:5]
x[i:j:k]                 x[::2] * x[1::2]
x[::-1]                  x[::-1] * x
x[i:j] = y               z = np.zeros(6); z[1:4] = x[2:5]; z * x
x[i:j] += y              z = x * x; z[1:4] += y[:3]; z
a[:, j]                  a[:, 1] * a[:, 2]
a[:, j] = v              z = a * b; z[:, 1] = s; z
a[i:j, k:l]              a[:2, 1:] * b[1:, :3]
a[..., j]                c[..., 1] * s
x[np.newaxis]            x[:, np.newaxis] * y[np.newaxis, :]
x[indices]               x[k] ** 2
x[indices] = y           z = x * x; z[k] = y[:4]; z
x[indices] += y          z = x * x; z[k] += y[:4]; z
x[indices] (repeated)    x[np.array([1, 1, 2])] ** 2
x[list]                  x[[0, 3]] ** 2
a[indices]               a[np.array([2, 0])] ** 2
a[:, indices]            a[:, np.array([2, 0])] ** 2
a[indices, i]            a[np.array([2, 0]), 1] ** 2
x[mask]                  x[flags] ** 2
x[x > 0]                 x[x > 0.0] ** 2
x[mask] = v              z = x * x; z[flags] = s; z
x[x > 0] = y             z = x * x; z[x > 0.0] = y[:4]; z
x[mask] *= v             z = x * x; z[flags] *= s; z
a[mask]                  a[a > 0.0] ** 2
x[()]                    np.array(s)[()] * s
np.take                  np.take(x, k) ** 2
np.take (axis)           np.take(a, np.array([2, 0]), axis=0) ** 2
np.take_along_axis       np.take_along_axis(a, np.argsort(a, axis=1), axis=1) ** 2
np.extract               np.extract(flags, x) ** 2
np.select                np.select([x > 1.0, x < 0.0], [x * x, np.sin(x)], 0.5)
np.where                 np.where(x > 0.0, x * x, y)
np.where (scalars)       np.where(s > 0.0, s * s, t)
np.where (positions)     np.where(x > 0.0)[0] * s
np.choose                np.choose(np.array([0, 1, 0, 1, 1, 0]), (x, y))
np.clip                  np.clip(x, -1.0, 1.0) ** 2
np.clip (arrays)         np.clip(x, y - 1.0, y + 1.0)
np.nan_to_num            np.nan_to_num(x) ** 2
np.fill_diagonal         z = m * m; np.fill_diagonal(z, s); z
np.ndenumerate           z = 0.0; for i, v in np.ndenumerate(a): z += v * v * (i[0] + 1); z
np.ndindex               z = 0.0; for i in np.ndindex(a.shape): z += a[i] * b[i]; z
np.nditer                z = 0.0; for v in np.nditer(a): z += v.item() ** 2; z
np.nditer (two)          z = 0.0; for v, w in np.nditer((a, b)): z += v.item() * w.item(); z
np.lib.stride_tricks.as_strided              np.lib.stride_tricks.as_strided(x, (5, 2), (8, 8)) ** 2
np.lib.stride_tricks.sliding_window_view     np.lib.stride_tricks.sliding_window_view(x, 3) ** 2
np.trim_zeros            np.trim_zeros(x) ** 2

# Shape
np.reshape               np.reshape(a, (4, 3)) ** 2
np.ravel                 np.ravel(a) ** 2
np.transpose             np.transpose(a) * s
np.transpose (axes)      np.transpose(c, (2, 0, 1)) * s
np.swapaxes              np.swapaxes(c, 0, 2) * s
np.moveaxis              np.moveaxis(c, 0, 2) * s
np.expand_dims           np.expand_dims(x, 1) * y
np.squeeze               np.squeeze(x.reshape(1, 6)) * s
np.atleast_1d            np.atleast_1d(x) ** 2
np.atleast_2d            np.atleast_2d(x) ** 2
np.atleast_3d            np.atleast_3d(x) ** 2
np.broadcast_to          np.broadcast_to(x, (2, 6)) * s
np.broadcast_arrays      r, q = np.broadcast_arrays(x, y[:1]); r * q
np.broadcast_shapes      np.broadcast_shapes((6,), (2, 1))[0] * s
np.concatenate           np.concatenate((x, y * y))
np.concatenate (axis)    np.concatenate((a, b * b), axis=1)
np.stack                 np.stack((x, y)) ** 2
np.stack (axis)          np.stack((x, y), axis=1) ** 2
np.hstack                np.hstack((a, b * b))
np.vstack                np.vstack((a, b * b))
np.dstack                np.dstack((a, b * b))
np.column_stack          np.column_stack((x, y)) ** 2
np.row_stack             np.row_stack((x, y)) ** 2
np.append                np.append(x, y) ** 2
np.insert                np.insert(x, 2, s) ** 2
np.delete                np.delete(x, 2) ** 2
np.resize                np.resize(x, (3, 3)) ** 2
np.split                 np.split(x, 3)[1] ** 2
np.array_split           np.array_split(x, 4)[1] ** 2
np.hsplit                np.hsplit(a, 2)[1] ** 2
np.vsplit                np.vsplit(a, 3)[1] ** 2
np.dsplit                np.dsplit(c, 2)[1] ** 2
np.repeat                np.repeat(x, 2) ** 2
np.repeat (counts)       np.repeat(x[:4], np.array([1, 0, 2, 3])) ** 2
np.tile                  np.tile(x, 2) ** 2
np.roll                  np.roll(x, 2) * y
np.rot90                 np.rot90(a) ** 2
np.flip                  np.flip(x) * y
np.fliplr                np.fliplr(a) * b
np.flipud                np.flipud(a) * b

# Arithmetic and elementary functions
np.add                   np.add(x, y) ** 2
np.subtract              np.subtract(x, y) ** 2
np.multiply              np.multiply(x, y)
np.divide                np.divide(x, y)
np.true_divide           np.true_divide(x, y)
np.floor_divide          np.floor_divide(x, y) * s
np.negative              np.negative(x) * y
np.positive              np.positive(x) * y
np.power                 np.power(p, y)
np.power (integer)       np.power(x, 3)
np.float_power           np.float_power(p, y)
np.remainder             np.remainder(x, p)
np.mod                   np.mod(x, p)
np.fmod                  np.fmod(x, p)
np.divmod                r, q = np.divmod(x, p); r * q
np.absolute              np.absolute(x)
np.abs                   np.abs(x) * y
np.fabs                  np.fabs(x)
np.rint                  np.rint(x) * s
np.sign                  np.sign(x) * s
np.conjugate             np.conjugate(x) * s
np.exp                   np.exp(x)
np.exp2                  np.exp2(x)
np.expm1                 np.expm1(x)
np.log                   np.log(p)
np.log2                  np.log2(p)
np.log10                 np.log10(p)
np.log1p                 np.log1p(p)
np.logaddexp             np.logaddexp(x, y)
np.logaddexp2            np.logaddexp2(x, y)
np.sqrt                  np.sqrt(p)
np.cbrt                  np.cbrt(p)
np.square                np.square(x)
np.reciprocal            np.reciprocal(x)
np.sin                   np.sin(x)
np.cos                   np.cos(x)
np.tan                   np.tan(u)
np.arcsin                np.arcsin(u)
np.arccos                np.arccos(u)
np.arctan                np.arctan(x)
np.arctan2               np.arctan2(x, y)
np.hypot                 np.hypot(x, y)
np.sinh                  np.sinh(x)
np.cosh                  np.cosh(x)
np.tanh                  np.tanh(x)
np.arcsinh               np.arcsinh(x)
np.arccosh               np.arccosh(1.0 + p)
np.arctanh               np.arctanh(u)
np.deg2rad               np.deg2rad(x) ** 2
np.rad2deg               np.rad2deg(x) ** 2
np.degrees               np.degrees(x) ** 2
np.radians               np.radians(x) ** 2
np.sinc                  np.sinc(u)
np.gcd                   np.gcd(k, 4) * s
np.lcm                   np.lcm(k, 4) * s
np.bitwise_and           np.bitwise_and(k, 3) * s
np.bitwise_or            np.bitwise_or(k, 3) * s
np.bitwise_xor           np.bitwise_xor(k, 3) * s
np.invert                np.invert(k) * s
np.left_shift            np.left_shift(k, 1) * s
np.right_shift           np.right_shift(k, 1) * s
np.greater               np.greater(x, y) * s
np.greater_equal         np.greater_equal(x, y) * s
np.less                  np.less(x, y) * s
np.less_equal            np.less_equal(x, y) * s
np.equal                 np.equal(x, y) * s
np.not_equal             np.not_equal(x, y) * s
np.logical_and           np.logical_and(flags, x > 0.0) * s
np.logical_or            np.logical_or(flags, x > 0.0) * s
np.logical_xor           np.logical_xor(flags, x > 0.0) * s
np.logical_not           np.logical_not(flags) * s
np.maximum               np.maximum(x, y) ** 2
np.minimum               np.minimum(x, y) ** 2
np.fmax                  np.fmax(x, y) ** 2
np.fmin                  np.fmin(x, y) ** 2
np.isfinite              np.isfinite(x) * s
np.isinf                 np.isinf(x) * s
np.isnan                 np.isnan(missing) * s
np.signbit               np.signbit(x) * s
np.copysign              np.copysign(p, x) * y
np.nextafter             np.nextafter(x, y) * s
np.ldexp                 np.ldexp(x, np.array([1, 0, 2, 1, 3, 0])) * s
np.frexp                 r, q = np.frexp(x); r * q
np.modf                  r, q = np.modf(x); r * q
np.floor                 np.floor(x) * s
np.ceil                  np.ceil(x) * s
np.trunc                 np.trunc(x) * s
np.spacing               np.spacing(x) * s
np.round                 np.round(x) * s
np.around                np.around(x * 1.1, 1) * s
np.angle                 np.angle(x) * s
np.unwrap                np.unwrap(x * 4.0)
np.isclose               np.isclose(x, y) * s
np.isreal                np.isreal(x) * s
np.iscomplex             np.iscomplex(x) * s
np.isrealobj             np.isrealobj(x) * s
np.iscomplexobj          np.iscomplexobj(x) * s
np.isneginf              np.isneginf(x) * s
np.isposinf              np.isposinf(x) * s
np.vectorize-like        np.sin(x) * np.cos(y) + x ** 2 / (1.0 + y ** 2)
broadcasting             a * x[:4] + s
broadcasting (outer)     x[:, None] * y[None, :] - s
broadcasting (out)       z = np.empty((3, 4)); z[:] = x[:4]; z * a
float32                  np.sin(f) * f
float32 with float64     f * x[:4]
complex arrays           z = x + 1j * y; z * z
complex functions        z = np.exp(1j * x); z.real * y

# Reductions
np.sum                   np.sum(x) ** 2
np.sum (axis)            np.sum(a, axis=0) ** 2
np.sum (axis 1)          np.sum(a, axis=1) ** 2
np.prod                  np.prod(x)
np.prod (axis)           np.prod(a, axis=0)
np.mean                  np.mean(x) ** 2
np.mean (axis)           np.mean(a, axis=0) ** 2
np.average               np.average(x) ** 2
np.average (weights)     np.average(x, weights=p)
np.var                   np.var(x)
np.std                   np.std(x)
np.min                   np.min(x) ** 2
np.max                   np.max(x) ** 2
np.amin                  np.amin(a) ** 2
np.amax                  np.amax(a) ** 2
np.ptp                   np.ptp(x) ** 2
np.median                np.median(x) ** 2
np.percentile            np.percentile(x, 30.0) ** 2
np.percentile (several)  np.percentile(x, np.array([10.0, 60.0])) ** 2
np.quantile              np.quantile(x, 0.3) ** 2
np.cumsum                np.cumsum(x) ** 2
np.cumprod               np.cumprod(x)
np.diff                  np.diff(x) ** 2
np.diff (n)              np.diff(x, 2) ** 2
np.ediff1d               np.ediff1d(x) ** 2
np.nansum                np.nansum(missing) ** 2
np.nanprod               np.nanprod(missing)
np.nanmean               np.nanmean(missing) ** 2
np.nanvar                np.nanvar(missing)
np.nanstd                np.nanstd(missing)
np.nanmin                np.nanmin(missing) ** 2
np.nanmax                np.nanmax(missing) ** 2
np.nanmedian             np.nanmedian(missing) ** 2
np.nanpercentile         np.nanpercentile(missing, 30.0) ** 2
np.nanquantile           np.nanquantile(missing, 0.3) ** 2
np.nancumsum             np.nancumsum(missing) ** 2
np.nancumprod            np.nancumprod(missing)
np.nanargmin             np.nanargmin(missing) * s
np.nanargmax             np.nanargmax(missing) * s
np.all                   np.all(x > 0.0) * s
np.any                   np.any(x > 0.0) * s
np.allclose              np.allclose(x, y) * s
np.array_equal           np.array_equal(x, y) * s
np.count_nonzero         np.count_nonzero(x) * s
np.argmin                np.argmin(x) * s
np.argmax                np.argmax(x) * s
np.argmax (axis)         np.argmax(a, axis=1) * s
np.trapezoid             np.trapezoid(x, up)
np.trapz                 np.trapz(x, up)
np.cov                   np.cov(a)
np.corrcoef              np.corrcoef(a)

# Sorting, searching, counting, sets
np.sort                  np.sort(x) ** 2
np.sort (2-D)            np.sort(a) ** 2
np.argsort               x[np.argsort(x)] ** 2
np.argsort (mergesort)   x[np.argsort(x, kind='mergesort')] ** 2
np.partition             np.partition(x, 2)[2] ** 2
np.argpartition          x[np.argpartition(x, 2)][2] ** 2
np.searchsorted          np.searchsorted(up, x) * s
np.digitize              np.digitize(x, up) * s
np.bincount              np.bincount(k) * s
np.bincount (weights)    np.bincount(k, x[:4]) ** 2
np.histogram             np.histogram(x, 3)[0] * s
np.histogram (edges)     np.histogram(x, 3)[1] ** 2
np.unique                np.unique(x) ** 2
np.nonzero               np.nonzero(x)[0] * s
np.flatnonzero           np.flatnonzero(x) * s
np.argwhere              np.argwhere(x > 0.0) * s
np.intersect1d           np.intersect1d(x, y) ** 2
np.union1d               np.union1d(x, y) ** 2
np.setdiff1d             np.setdiff1d(x, y) ** 2
np.setxor1d              np.setxor1d(x, y) ** 2
np.isin                  np.isin(x, y) * s
np.in1d                  np.in1d(x, y) * s

# Products, interpolation, polynomials
np.dot                   np.dot(x, y)
np.dot (2-D, 1-D)        np.dot(a, x[:4]) ** 2
np.dot (2-D)             np.dot(a, b.T)
np.dot (out)             z = np.empty((3, 3)); np.dot(a, b.T.copy(), z); z
x @ y                    x @ y
a @ x                    a @ x[:4]
x @ a                    x[:3] @ a
a @ b                    a @ m
np.vdot                  np.vdot(x, y)
np.outer                 np.outer(x, y) ** 2
np.kron                  np.kron(x, y) ** 2
np.kron (2-D)            np.kron(a, b)
np.cross                 np.cross(x[:3], y[:3])
np.trace                 np.trace(m) ** 2
np.interp                np.interp(p, up, y)
np.interp (scalar)       np.interp(t, up, y)
np.convolve              np.convolve(x, y[:3])
np.convolve (same)       np.convolve(x, y[:3], mode='same')
np.correlate             np.correlate(x, y[:3])
np.polyadd               np.polynomial.polynomial.polyadd(x, y) ** 2
np.polysub               np.polynomial.polynomial.polysub(x, y) ** 2
np.polymul               np.polynomial.polynomial.polymul(x, y)
np.polydiv               r, q = np.polynomial.polynomial.polydiv(x, y[:3]); weigh(r) + weigh(q)
np.polyint               np.polynomial.polynomial.polyint(x) ** 2
np.polyval               np.polynomial.polynomial.polyval(s, x)
np.polyval (array)       np.polynomial.polynomial.polyval(y, x)
np.polynomial.Polynomial  np.polynomial.Polynomial(x).coef ** 2
np.roots                 np.roots(np.array([1.0, -6.0, 11.0, -6.0]) * s).real

# np.linalg
np.linalg.cholesky       np.linalg.cholesky(spd)
np.linalg.cond           np.linalg.cond(m)
np.linalg.cond (complex)  np.linalg.cond(m + 1j * sym)
np.linalg.det            np.linalg.det(m)
np.linalg.eig            r, q = np.linalg.eig(spd); weigh(r.real) + weigh(q.real * q.real)
np.linalg.eigvals        np.linalg.eigvals(spd).real
np.linalg.eigh           r, q = np.linalg.eigh(sym); weigh(r) + weigh(q * q)
np.linalg.eigh (complex)  r, q = np.linalg.eigh(sym + 1j * m); weigh(r) + weigh(q.real * q.imag)
np.linalg.eigvalsh       np.linalg.eigvalsh(sym)
np.linalg.eigvalsh (complex)  np.linalg.eigvalsh(sym + 1j * m)
np.linalg.inv            np.linalg.inv(m)
np.linalg.lstsq          np.linalg.lstsq(m[:, :2].copy(), x[:4])[0]
np.linalg.lstsq (complex)  np.linalg.lstsq((m + 1j * sym)[:, :2].copy(), x[:4] + 2j)[0].imag
np.linalg.matrix_power   np.linalg.matrix_power(m, 3)
np.linalg.matrix_rank    np.linalg.matrix_rank(m) * s
np.linalg.norm           np.linalg.norm(x)
np.linalg.norm (2-D)     np.linalg.norm(a)
np.linalg.norm (order)   np.linalg.norm(x, 3)
np.linalg.norm (2)  np.linalg.norm(m, 2)
np.linalg.norm (2, complex)  np.linalg.norm(m + 1j * sym, 2)
np.linalg.pinv           np.linalg.pinv(a)
np.linalg.pinv (complex)  np.linalg.pinv(a + 1j * b).imag
np.linalg.qr             r, q = np.linalg.qr(m); weigh(r) + weigh(q)
np.linalg.qr (complex)   r, q = np.linalg.qr(m + 1j * sym); weigh(r.imag) + weigh(q.imag)
np.linalg.slogdet        np.linalg.slogdet(m)[1]
np.linalg.slogdet (complex)  r, q = np.linalg.slogdet(m + 1j * sym); r.imag + q
np.linalg.solve          np.linalg.solve(m, x[:4])
np.linalg.solve (2-D)    np.linalg.solve(m, spd)
np.linalg.svd            r, q, z = np.linalg.svd(m); weigh(r * r) + weigh(q) + weigh(z * z)
np.linalg.svd (complex)  r, q, z = np.linalg.svd(m + 1j * sym); weigh(r.real * r.imag) + weigh(q)
np.fft.fft               np.fft.fft(x)

# np.random
np.random.seed           np.random.seed(7); np.random.random() * s
np.random.rand           np.random.seed(7); np.random.rand(3) * s
np.random.randn          np.random.seed(7); np.random.randn(3) * s
np.random.randint        np.random.seed(7); np.random.randint(1, 9) * s
np.random.random         np.random.seed(7); np.random.random(3) * s
np.random.random_sample  np.random.seed(7); np.random.random_sample(3) * s
np.random.ranf           np.random.seed(7); np.random.ranf() * s
np.random.sample         np.random.seed(7); np.random.sample() * s
np.random.choice         np.random.seed(7); np.random.choice(x, 3) * s
np.random.permutation    np.random.seed(7); np.random.permutation(x) * y
np.random.permutation (of n)       np.random.seed(7); x[np.random.permutation(6)] * y
np.random.shuffle        np.random.seed(7); z = x * 1.0; np.random.shuffle(z); z * y
np.random.normal         np.random.seed(7); np.random.normal(s, t)
np.random.normal (size)  np.random.seed(7); np.random.normal(s, t, 3)
np.random.standard_normal          np.random.seed(7); np.random.standard_normal(3) * s
np.random.uniform        np.random.seed(7); np.random.uniform(s, t)
np.random.uniform (size)  np.random.seed(7); np.random.uniform(s, t, 3)
np.random.exponential    np.random.seed(7); np.random.exponential(s)
np.random.exponential (size)       np.random.seed(7); np.random.exponential(s, 3)
np.random.standard_exponential     np.random.seed(7); np.random.standard_exponential() * s
np.random.standard_cauchy          np.random.seed(7); np.random.standard_cauchy() * s
np.random.standard_gamma           np.random.seed(7); np.random.standard_gamma(2.5) * s
np.random.standard_t     np.random.seed(7); np.random.standard_t(4.5) * s
np.random.gamma          np.random.seed(7); np.random.gamma(2.5, s)
np.random.gamma (shape)  np.random.seed(7); np.random.gamma(1.0 + s, t)
np.random.gamma (size)   np.random.seed(7); np.random.gamma(2.5, s, 3)
np.random.beta           np.random.seed(7); np.random.beta(2.5, 3.5) * s
np.random.beta (shape)   np.random.seed(7); np.random.beta(1.0 + s, 1.0 + t)
np.random.chisquare      np.random.seed(7); np.random.chisquare(4.5) * s
np.random.noncentral_chisquare     np.random.seed(7); np.random.noncentral_chisquare(4.5, 1.5) * s
np.random.f              np.random.seed(7); np.random.f(4.5, 5.5) * s
np.random.gumbel         np.random.seed(7); np.random.gumbel(s, t)
np.random.laplace        np.random.seed(7); np.random.laplace(s, t)
np.random.logistic       np.random.seed(7); np.random.logistic(s, t)
np.random.lognormal      np.random.seed(7); np.random.lognormal(s, t)
np.random.pareto         np.random.seed(7); np.random.pareto(t)
np.random.power          np.random.seed(7); np.random.power(t)
np.random.rayleigh       np.random.seed(7); np.random.rayleigh(t)
np.random.triangular     np.random.seed(7); np.random.triangular(s, t, t + 1.0)
np.random.vonmises       np.random.seed(7); np.random.vonmises(0.5, 1.5) * s
np.random.vonmises (parameters)    np.random.seed(7); np.random.vonmises(s, t)
np.random.wald           np.random.seed(7); np.random.wald(0.5, 1.5) * s
np.random.wald (parameters)        np.random.seed(7); np.random.wald(s, t)
np.random.weibull        np.random.seed(7); np.random.weibull(t)
np.random.binomial       np.random.seed(7); np.random.binomial(9, 0.4) * s
np.random.negative_binomial        np.random.seed(7); np.random.negative_binomial(4, 0.4) * s
np.random.geometric      np.random.seed(7); np.random.geometric(0.4) * s
np.random.hypergeometric  np.random.seed(7); np.random.hypergeometric(5, 6, 4) * s
np.random.logseries      np.random.seed(7); np.random.logseries(0.4) * s
np.random.multinomial    np.random.seed(7); np.random.multinomial(5, np.array([0.4, 0.6])) * s
np.random.dirichlet      np.random.seed(7); np.random.dirichlet(np.array([1.5, 2.5])) * s
np.random.poisson        np.random.seed(7); np.random.poisson(3.5) * s
np.random.zipf           np.random.seed(7); np.random.zipf(2.5) * s
"""
