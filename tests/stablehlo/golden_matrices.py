"""Linear algebra in the goldens of JAX, and what XLA calls by name."""

import functools

import jax
import jax.numpy as jnp
from jax import lax


def matrices(a, b):
    """Systems of equations and factors, of more rows than a block has, too."""
    n = 40
    # As good as random, and the same everywhere.
    i = jnp.arange(n, dtype=jnp.float32)
    large = ((i[:, None] * 37 + i**2 * 11 + i[:, None] * i * 5) % 101 - 50) / 50
    spd = large @ large.T / n + jnp.eye(n)
    small = a @ a.swapaxes(-1, -2) + jnp.eye(a.shape[-1])
    solve_triangular = functools.partial(jax.scipy.linalg.solve_triangular, lower=True)

    def likelihood(scale):
        factor = jnp.linalg.cholesky(spd * scale)
        return jnp.log(jnp.diagonal(factor)).mean() + (solve_triangular(factor, i) ** 2).mean() / n

    def factors(m):
        p, lower, upper = jax.scipy.linalg.lu(m)
        q, r = jnp.linalg.qr(m)
        return p, lower, upper, q, r

    values, vectors = jnp.linalg.eigh(small)
    return (
        jax.value_and_grad(likelihood)(1.5),
        jnp.linalg.cholesky(small, upper=True),
        solve_triangular(a, b, trans=1, unit_diagonal=True),
        jnp.linalg.solve(small, b),
        jnp.linalg.solve(spd + large / n, i)[::9],
        jnp.linalg.slogdet(a),
        factors(b[0]),
        factors(b[0].T),
        jnp.linalg.qr(large)[0][::23, ::23],
        values,
        # Either sign of a vector is right.
        (vectors * jnp.exp(-values)[..., None, :]) @ vectors.swapaxes(-1, -2),
        jnp.linalg.eigvalsh(spd)[::9],
        jnp.linalg.cholesky(-small)[..., 0, 0],
    )


def singular_values(a):
    """By the polar decomposition, where nothing calls LAPACK."""
    u, values, v = jnp.linalg.svd(a, full_matrices=False)
    return values, (u * jnp.exp(-values)) @ v


def calls(x, z):
    """Functions that XLA calls by name, and a select of complex numbers."""
    jax.debug.print("{}", x[0, 0])
    packed, factors = jnp.linalg.qr(x, mode="raw")
    multiplied = functools.partial(lax.linalg.ormqr, packed.T, factors)
    return (
        lax.approx_max_k(x, 2),
        lax.approx_min_k(x, 2, reduction_dimension=0),
        multiplied(x),
        multiplied(x, transpose=True),
        multiplied(x.T, left=False),
        multiplied(x.T, left=False, transpose=True),
        lax.fori_loop(0, 9, lambda i, w: jnp.where(jnp.abs(w) < 2, w * w + z, w), z * 0),
        lax.cond(x[0, 0] > 0, lambda w: w * 2, lambda w: w + 1, z),
    )
