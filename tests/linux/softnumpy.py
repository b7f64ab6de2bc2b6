# SPDX-License-Identifier: GPL-2.0-or-later
# numpy for tests/linux/software: a line with a hash for each ufunc, BLAS and LAPACK, generators, sorting and casts. What it
# dispatches to is the first line.
import hashlib, sys
import numpy as np

core = getattr(np, "_core", None) or np.core  # since numpy 2, until then
core = core._multiarray_umath

def line(name, *values):
    print("software: numpy", name, hashlib.md5(b"".join(values)).hexdigest())

def data(x):  # of an array, without the padding of long double
    x = np.ascontiguousarray(x)
    if x.dtype.char in "gG":
        return x.view(np.uint8).reshape(-1, 16)[:, :10].tobytes()
    return x.tobytes()

rng = np.random.default_rng(24)
special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, -2.5, 1e-40, 65504]

def operand(char, n):
    dtype = np.dtype(char)
    if dtype.kind in "biu":
        return np.frombuffer(rng.bytes(n * 8), np.uint64).astype(dtype)
    x = rng.normal(size=n) * 10.0 ** rng.integers(-12, 4, n)
    x[::17] = rng.choice(special, len(x[::17]))
    if dtype.kind == "c":
        x = x + 1j * np.roll(x, 5)
    return x.astype(dtype)

line("features", " ".join(sorted(f for f in core.__cpu_baseline__ + core.__cpu_dispatch__ if core.__cpu_features__[f])).encode())
np.seterr(all="ignore")
# Every loop of every ufunc, on contiguous, strided, reversed and unaligned operands.
for name in sorted(dir(np)):
    ufunc, values = getattr(np, name), []
    if not isinstance(ufunc, np.ufunc):
        continue
    for types in ufunc.types:
        args, n = types.split("->")[0], 331
        if set(types) & set("OMm") or ufunc.signature:
            continue
        x = [operand(char, 3 * n) for char in args]
        odd = [np.frombuffer(b"x" + v.tobytes(), v.dtype, offset=1) for v in x]
        for cut in [v[:n] for v in x], [v[::3] for v in x], [v[n::-1] for v in x], [v[1:n] for v in odd]:
            try:
                out = ufunc(*cut, sig=types)
            except (ValueError, TypeError) as e:
                out = np.frombuffer(type(e).__name__.encode(), np.uint8)
            values += [data(o) for o in (out if isinstance(out, tuple) else (out,))]
    if ufunc.nin == 2 and ufunc.nout == 1 and not ufunc.signature:
        for char in "fdqH":
            for f in ufunc.reduce, ufunc.accumulate:
                try:
                    values.append(data(f(operand(char, 2000))))
                except (ValueError, TypeError) as e:
                    values.append(type(e).__name__.encode())
    line(name, *values)

# BLAS and LAPACK: also right.
def near(a, b):
    if not np.abs(a - b).max() <= (2e-4 if a.dtype.char in "fF" else 1e-11) * np.abs(b).max():
        print("software: numpy", a.dtype, a.shape, "is wrong")
    return data(a)

for char in "fdFD":
    for n in 1, 7, 32, 65:
        a = rng.normal(size=(n, n)) + n * np.eye(n)
        a = (a + 1j * rng.normal(size=(n, n)) if char in "FD" else a).astype(char)
        b, h = a[:, ::-1].copy(), a @ a.conj().T
        w, v = np.linalg.eigh(h)
        u, s, vh = np.linalg.svd(a)
        q, r = np.linalg.qr(a)
        c = np.linalg.cholesky(h)
        e, y = np.linalg.eig(a)
        line(f"linalg {char} {n}", near(a @ np.linalg.solve(a, b), b), near(np.linalg.inv(a) @ a, np.eye(n).astype(char)),
             near(h @ v, w * v), near((u * s) @ vh, a), near(q @ r, a), near(c @ c.conj().T, h), near(a @ y, e * y),
             data(np.linalg.det(a / n)), data(np.einsum("ij,jk,kl->il", a, b, h)), data(np.fft.fft2(a)))
for kind in np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64:
    g, values = np.random.Generator(kind(24)), []
    for f in g.random, g.standard_normal, g.standard_exponential, g.standard_cauchy:
        values.append(data(f(size=3000)))
    values += [data(g.gamma(2.5, size=2000)), data(g.poisson(40, 2000)), data(g.permutation(2000))]
    line(kind.__name__, *values)
for char in "bBhHiIqQefdgFD?":
    x = operand(char, 3001)
    line("sort " + char, *[data(np.sort(x, kind=k)) for k in ("quicksort", "heapsort", "stable")], data(np.argsort(x, kind="stable")),
         data(np.partition(x, 700)[:700].sum()), data(np.searchsorted(np.sort(x), x[:100])))
    for other in "bBhHiIqQefdgFD?":
        line(f"cast {char} {other}", data(x.astype(other)), data(x[::2].astype(other)))
