"""`both_directions`: a recurrent layer that reads forwards and backwards."""

from __future__ import annotations

import keras

__all__ = ["both_directions"]


def both_directions(layer, **options):
    """`keras.layers.Bidirectional(layer, **options)`, which stays what it is while a .keras file is read.

    `Bidirectional` writes down the configuration of `layer` and makes two layers of it. While a file is read, Keras
    takes two configurations for one object when they come from the same address; and Python gives the address of a
    layer that nobody holds to the next one, which then shared its weights with an earlier layer, or was refused. So it
    is held.

    Args:
        layer: a recurrent layer of Keras.
        options: what `Bidirectional` takes.
    """
    both = keras.layers.Bidirectional(layer, **options)
    both.made_from = lambda: layer  # a function: Keras would count the layer itself among the model's
    return both
