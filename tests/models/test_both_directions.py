from __future__ import annotations

import keras
from keras.src.saving.serialization_lib import ObjectSharingScope

from keras_attention.models.both_directions import both_directions


def test_layers_made_while_a_file_is_read_share_nothing():
    """Each is dropped at once, so that Python would give the next one its address."""
    with ObjectSharingScope():
        made = [both_directions(keras.layers.LSTM(2, name="lstm"), name=f"layer_{number}") for number in range(50)]
    layers = [layer for both in made for layer in (both.forward_layer, both.backward_layer)]
    assert len({id(layer) for layer in layers}) == 100
    assert [layer.go_backwards for layer in layers] == 50 * [False, True]
    assert not made[0].built and made[0].made_from().name == "lstm"


def test_the_layer_it_is_made_from_is_none_of_its_own():
    both = both_directions(keras.layers.GRU(2))
    both.build((None, None, 3))
    assert len(both.weights) == len(both.forward_layer.weights) + len(both.backward_layer.weights)
