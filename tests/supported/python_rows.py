"""Rows for the Python features that Numba supports."""

PYTHON = """
# Python: built-in functions
abs                      abs(s - t) * s
bool                     bool(s) * t
complex                  z = complex(s, t); (z * z).real
divmod                   r, q = divmod(5.0 * s, t); r * q
enumerate                z = 0.0; for i, v in enumerate(x): z += i * v * v; z
filter                   z = 0.0; for v in filter(lambda v: v > 0.0, x): z += v * v; z
float                    float(s) * t
getattr                  getattr(x, 'size') * s
hash                     z = 1.0 if hash(s) != 0 else 2.0; z * s
int                      int(5.0 * s) * t
isinstance               z = 1.0 if isinstance(s, float) else 2.0; z * s
iter, next               z = iter(x); next(z) * next(z)
len                      len(x) * s
map                      z = 0.0; for v in map(lambda v: v * v, x): z += v; z
min                      min(s, t) ** 2
max                      max(s, t) ** 2
max (three)              max(s, t, s * t) ** 2
pow                      pow(t, s)
pow (integer)            pow(t, 3)
print                    print('a row of the coverage page', n); s * t
print (array)            print(x, s); s * t
range                    z = s; for i in range(5): z = z * t + i; z
reversed                 z = 0.0; for v in reversed((s, t)): z = z * s + v; z
round                    round(4.9 * s) * t
round (digits)           round(0.3 * s, 1) * t
sorted                   sorted(x)[2] ** 2
str                      len(str(n)) * s
sum                      sum(x) ** 2
sum (of a list)          sum([s, t, s * t]) ** 2
type                     type(s)(2) * s
tuple                    tuple((s, t))[0] * t
zip                      z = 0.0; for v, w in zip(x, y): z += v * w; z
slice                    x[slice(1, 4)] ** 2

# Python: statements
if                       z = s * t if s > t else s - t; z * z
while                    z = s; while z < 50.0: z = z * z + t; z
for, break               z = 0.0; for v in x: z += v * v if v > 0.0 else s; z
chained comparison       z = s if 0.0 < s < t else t; z * z
augmented assignment     z = s; z += t; z *= s; z -= 1.0; z /= t; z **= 2; z
several targets          r = q = s * t; r * q
swap                     r, q = s, t; r, q = q, r * q; r - q * q
assert                   assert s > 0.0; s * s
inner function           g = lambda v: v * t; g(s) * g(s)
list comprehension       weigh(np.array([v * v for v in x if v > 0.0]))
list comprehension (sum)  sum([v * v for v in x])
nested comprehension     np.array([[v * w for v in x[:2]] for w in y[:2]])
default arguments        g = lambda v, w=2.0: v * w; g(s) * g(s, t)
unpacking of arguments   g = lambda v, w: v * w; g(*(s, t))
del                      z = x * x; q = z.sum(); del z; q
literal_unroll           z = 0.0; for v in literal_unroll((s, 2, t)): z += v * v; z

# Python: tuples
tuple                    z = (s, t, s * t); z[0] * z[2]
tuple + tuple            z = (s, t) + (s * s,); z[1] * z[2]
tuple slice              z = (s, t, s * t)[1:]; z[0] * z[1]
tuple of arrays          z = (x, y * y); (z[0] * z[1]).sum()
tuple, variable index    z = (s, t, s * t); z[n - 1] * t
tuple in loop            z = 0.0; for v in (s, t, s * t): z += v * v; z
tuple comparison         z = 1.0 if (s, t) < (t, s) else 2.0; z * s
tuple.index              (1, 2, 3).index(n) * s
tuple, nested            z = ((s, t), (t, s * t)); z[0][1] * z[1][1]
namedtuple               z = Point(s, t); z.left * z.right
namedtuple of arrays     z = Point(x, y); (z.left * z.right).sum()
len(tuple)               len((s, t)) * s

# Python: lists
[...]                    z = [s, t, s * t]; z[0] * z[2]
list.append              z = [s]; z.append(t); z[0] * z[1]
list.append in a loop    z = [s]; for v in x: z.append(z[-1] * t + v); z[3]
list.extend              z = [s]; z.extend([t, s * t]); z[0] * z[2]
list.insert              z = [s, t]; z.insert(1, s * t); z[1] * z[2]
list.pop                 z = [s, t]; z.pop() * t
list.remove              z = [1, 2, 3]; z.remove(2); z[1] * s
list.index               [1, 2, 3].index(n) * s
list.count               [1, 2, 3].count(n) * s
list.reverse             z = [s, t]; z.reverse(); z[0] ** 2
list.sort                z = [t, s]; z.sort(); z[0] ** 2
list.copy                z = [t, s]; q = z.copy(); q[0] ** 2
list.clear               z = [t, s]; z.clear(); len(z) * s
list, slice              z = [s, t, s * t]; z[1:][0] ** 2
list + list              z = [s] + [t]; z[0] * z[1]
list * int               z = [s] * 3; z[2] * t
list, iteration          z = 0.0; for v in [s, t, s * t]: z += v * v; z
list of arrays           z = [x, y]; (z[0] * z[1]).sum()
list of tuples           z = [(s, t), (t, s)]; z[0][0] * z[1][0]
list, in                 z = 1.0 if 2 in [1, 2] else 2.0; z * s
typed.List               z = typed.List(); z.append(s); z.append(t); z[0] * z[1]
typed.List of arrays     z = typed.List(); z.append(x); (z[0] * z[0]).sum()
np.array(list)           z = [s, t]; z.append(s * t); np.array(z) ** 2

# Python: dictionaries and sets
dict                     z = {1: s, 2: t}; z[1] * z[2]
dict, write              z = {1: s}; z[2] = t * s; z[2] * z[1]
dict.items               z = 0.0; for i, v in {1: s, 2: t}.items(): z += i * v * v; z
dict of integers         z = {1: 3, 2: 4}; z[1] * s
typed.Dict               z = typed.Dict.empty(types.int64, types.float64); z[1] = s; z[1] * t
set of integers          z = {1, 2, 3}; len(z) * s
set.add                  z = {1, 2}; z.add(n); len(z) * s
set in a loop            z = 0.0; for i in {1, 2}: z += i * s; z
set of floats            z = {s, t}; len(z) * s
set operations           z = {1, 2} | {2, 5}; len(z & {2, 5}) * s

# Python: strings
str ==                   z = s if word == 'gradient' else t; z * z
str +                    len(word + 'x') * s
str.upper                z = s if word.upper() == 'GRADIENT' else t; z * z
str.startswith           z = s if word.startswith('gr') else t; z * z
str.find                 word.find('d') * s
str.split                len('a b c'.split(' ')) * s
str.join                 len('-'.join(['a', 'b'])) * s
str.replace              len(word.replace('d', '')) * s
str, iteration           z = 0.0; for i in word: z += s; z
str, in                  z = s if 'rad' in word else t; z * z
str(int)                 len(str(n) + word) * s

# Python: numbers
float + - * /            (s + t) * (s - t) / t
float //                 (7.0 * s) // t * s
float %                  (7.0 * s) % t * s
float **                 t ** s
float ** int             t ** 3
float ** int (variable)  t ** n
-float                   -s * t
int arithmetic           (n * 3 + 1) // 2 % 5 * s
int / int                n / 2 * s
int shifts               ((n << 2) | 1) ^ 3 & ~2 * 1.0
comparison               (s < t) * t
and, or, not             z = s if (s > 0.0 and not t < 0.0) or n == 1 else t; z * z
complex                  z = (s + 2j) * (t - 1j); z.real * z.imag
complex /                z = (s + 2j) / (t - 1j); z.real * z.imag
complex **               z = (s + 2j) ** 2; z.real * z.imag
complex abs              abs(complex(s, t)) * s
complex.conjugate        z = complex(s, t); (z * z.conjugate()).real
enum                     z = s if n == Colour.BLUE else t; z * z
enum.value               Colour.BLUE.value * s
None, optional           z = None if n < 0 else s; z * t if z is not None else t

# math
math.acos                math.acos(0.5 * s)
math.acosh               math.acosh(t)
math.asin                math.asin(0.5 * s)
math.asinh               math.asinh(s)
math.atan                math.atan(s)
math.atan2               math.atan2(s, t)
math.atanh               math.atanh(0.5 * s)
math.ceil                math.ceil(s) * t
math.copysign            math.copysign(s, -t)
math.cos                 math.cos(s)
math.cosh                math.cosh(s)
math.degrees             math.degrees(s) * t
math.dist                math.dist((s, t), (t, 1.0))
math.erf                 math.erf(s)
math.erfc                math.erfc(s)
math.exp                 math.exp(s)
math.exp2                math.exp2(s)
math.expm1               math.expm1(s)
math.fabs                math.fabs(s - t)
math.floor               math.floor(s) * t
math.fmod                math.fmod(7.0 * s, t)
math.frexp               r, q = math.frexp(s); r * q
math.fsum                math.fsum(x)
math.gamma               math.gamma(t)
math.gcd                 math.gcd(n, 6) * s
math.hypot               math.hypot(s, t)
math.isclose             math.isclose(s, t) * s
math.isfinite            math.isfinite(s) * t
math.isinf               math.isinf(s) * t
math.isnan               math.isnan(s) * t
math.ldexp               math.ldexp(s, n) * t
math.lgamma              math.lgamma(t)
math.log                 math.log(t)
math.log (base)          math.log(t) / math.log(3.0)
math.log10               math.log10(t)
math.log1p               math.log1p(t)
math.log2                math.log2(t)
math.modf                r, q = math.modf(5.0 * s); r * q
math.nextafter           math.nextafter(s, t) * s
math.pow                 math.pow(t, s)
math.radians             math.radians(s) * t
math.sin                 math.sin(s)
math.sinh                math.sinh(s)
math.sqrt                math.sqrt(s)
math.tan                 math.tan(s)
math.tanh                math.tanh(s)
math.trunc               math.trunc(5.0 * s) * t
math constants           math.pi * s + math.e * t

# cmath
cmath.acos               cmath.acos(complex(s, t))
cmath.acosh              cmath.acosh(complex(s, t))
cmath.asin               cmath.asin(complex(s, t))
cmath.asinh              cmath.asinh(complex(s, t))
cmath.atan               cmath.atan(complex(s, t))
cmath.atanh              cmath.atanh(complex(s, t))
cmath.cos                cmath.cos(complex(s, t))
cmath.cosh               cmath.cosh(complex(s, t))
cmath.exp                cmath.exp(complex(s, t))
cmath.isfinite           cmath.isfinite(complex(s, t)) * s
cmath.isinf              cmath.isinf(complex(s, t)) * s
cmath.isnan              cmath.isnan(complex(s, t)) * s
cmath.log                cmath.log(complex(s, t))
cmath.log10              cmath.log10(complex(s, t))
cmath.phase              cmath.phase(complex(s, t))
cmath.polar              r, q = cmath.polar(complex(s, t)); r * q
cmath.rect               cmath.rect(s, t)
cmath.sin                cmath.sin(complex(s, t))
cmath.sinh               cmath.sinh(complex(s, t))
cmath.sqrt               cmath.sqrt(complex(s, t))
cmath.tan                cmath.tan(complex(s, t))
cmath.tanh               cmath.tanh(complex(s, t))

# operator, functools, heapq
operator.add             operator.add(s, t) ** 2
operator.mul             operator.mul(s, t)
operator.truediv         operator.truediv(s, t)
operator.pow             operator.pow(t, s)
operator.neg             operator.neg(s) * t
operator.matmul          operator.matmul(a, x[:4])
operator.iadd            z = x * x; z = operator.iadd(z, y); z
operator.lt              operator.lt(s, t) * s
operator.getitem         operator.getitem(x, 2) * s
functools.reduce         functools.reduce(lambda v, w: v * t + w, x, s)
heapq.heappush, heappop  z = [s]; heapq.heappush(z, t); heapq.heappop(z) ** 2
heapq.nsmallest          heapq.nsmallest(2, [3, 1, 2])[0] * s

# random
random.seed              random.seed(7); random.random() * s
random.random            random.seed(7); random.random() * s
random.betavariate       random.seed(7); random.betavariate(2.5, 3.5) * s
random.expovariate       random.seed(7); random.expovariate(s)
random.gammavariate      random.seed(7); random.gammavariate(2.5, s)
random.gauss             random.seed(7); random.gauss(s, t)
random.getrandbits       random.seed(7); random.getrandbits(4) * s
random.lognormvariate    random.seed(7); random.lognormvariate(s, t)
random.normalvariate     random.seed(7); random.normalvariate(s, t)
random.paretovariate     random.seed(7); random.paretovariate(t)
random.randint           random.seed(7); random.randint(1, 9) * s
random.randrange         random.seed(7); random.randrange(9) * s
random.shuffle           random.seed(7); z = x * 1.0; random.shuffle(z); z * y
random.triangular        random.seed(7); random.triangular(s, t, t - 0.2)
random.uniform           random.seed(7); random.uniform(s, t)
random.vonmisesvariate   random.seed(7); random.vonmisesvariate(0.5, 1.5) * s
random.vonmisesvariate (parameters)  random.seed(7); random.vonmisesvariate(s, t)
random.weibullvariate    random.seed(7); random.weibullvariate(s, t)
"""
