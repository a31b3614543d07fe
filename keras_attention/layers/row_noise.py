"""Random numbers made from a seed of each row and a count, without any state but those two.

A loop of a decoder draws with these: a `keras.random.SeedGenerator` cannot move inside a loop of JAX, and gives the
rows of a batch one seed together, so that a beam could not gather it.
"""

from __future__ import annotations

from keras import ops

__all__ = ["row_gumbel", "row_uniform"]


def row_uniform(seed, step, length):
    """Numbers in (0, 1), even and independent for other seeds, steps or places: the same for the same three.

    Those of a shorter row are the first of a longer one. Each is a hash of the three: the finaliser of 32 bits that
    Wellons found by search ("lowbias32"), once for each.

    Args:
        seed: int32 (B,).
        step: int32 (B,).
        length: int, how many numbers a row.

    Returns:
        float32 (B, length).
    """
    places = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
    bits = _scramble(ops.bitwise_xor(_scramble(seed), step))
    bits = _scramble(ops.bitwise_xor(ops.expand_dims(bits, 1), _scramble(places)))
    # The upper 23 bits and a half: all that float32 holds between 0 and 1 without reaching either.
    return (ops.cast(_shifted(bits, 9), "float32") + 0.5) / 2**23


def row_gumbel(seed, step, length):
    """Numbers of a standard Gumbel distribution, `−log(−log u)`: arguments and shape as `row_uniform`."""
    return -ops.log(-ops.log(row_uniform(seed, step, length)))


def _scramble(bits):
    """A one-to-one map of the 32-bit numbers, after which no bit tells of another."""
    bits = ops.add(bits, ops.full_like(bits, 0x3C6EF372))  # without it 0 would stay 0
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B - 2**32)):
        bits = ops.bitwise_xor(bits, _shifted(bits, shift))
        bits = ops.multiply(bits, ops.full_like(bits, factor))  # modulo 2**32
    return ops.bitwise_xor(bits, _shifted(bits, 16))


def _shifted(bits, places):
    """A shift to the right that brings zeros in: int32 brings the sign."""
    kept = ops.full_like(bits, 2 ** (32 - places) - 1)
    return ops.bitwise_and(ops.right_shift(bits, ops.full_like(bits, places)), kept)
