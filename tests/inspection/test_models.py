"""Every form of model, and how the maps of its layers are told apart."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import AttentionMap, attention_maps
from keras_attention.layers import BahdanauAttention, LuongAttention, MultiDimAttention, StructuredAttention
from tests.backends import tensorflow_only
from tests.inspection.models import WIDTH, Calling, array, draw, names, weights_of

IDS = np.array([[3, 1, 4, 0, 0], [1, 5, 2, 6, 3]], "int32")
MASK = IDS != 0
INPUTS = draw(2, 5, WIDTH)


def own(layer, *args, **kwargs):
    """The weights that a layer returns when it is asked, float32."""
    return array(layer(*args, return_attention_scores=True, **kwargs)[1]).astype("float32")


def functional():
    """Ids → embedding with a mask → attention → pooling in rows."""
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, WIDTH, mask_zero=True, name="embed")(ids)
    read = BahdanauAttention(units=4, name="look")([embedded, embedded])
    return keras.Model(ids, StructuredAttention(rows=3, units=4, name="rows")(read))


def test_a_functional_model_gives_a_map_for_each_layer_in_the_order_of_the_calls():
    model = functional()
    maps = attention_maps(model, IDS)
    assert names(maps) == ["look", "rows"]
    embedded = model.get_layer("embed")(IDS)
    mask = ops.convert_to_tensor(MASK)
    look, rows = model.get_layer("look"), model.get_layer("rows")
    np.testing.assert_array_equal(weights_of(maps), own(look, [embedded, embedded], mask=[mask, mask]))
    read = look([embedded, embedded], mask=[mask, mask])
    np.testing.assert_array_equal(weights_of(maps, 1), own(rows, read, mask=mask))
    assert weights_of(maps, 1).shape == (2, 3, 5)
    assert (weights_of(maps, 1)[0, :, 3:] == 0).all()
    assert isinstance(maps[0][0], AttentionMap)
    assert (maps[0][0].kind, maps[0][0].rows, maps[0][0].columns) == ("bahdanau_attention", (*"01234",), (*"01234",))


def test_a_shared_layer_has_a_numbered_map_for_each_call():
    layer = LuongAttention(name="look")
    maps = attention_maps(Calling(lambda look, x: look([look([x, x]), x]), layer), INPUTS)
    assert names(maps) == ["look[call=0]", "look[call=1]"]
    np.testing.assert_array_equal(weights_of(maps), own(layer, [INPUTS, INPUTS]))
    read = layer([INPUTS, INPUTS])
    np.testing.assert_array_equal(weights_of(maps, 1), own(layer, [read, INPUTS]))


def test_a_sequential_model_with_time_distributed_attention():
    """A document: sentences (B, S, W, D) → one vector each."""
    rows = StructuredAttention(rows=2, units=4, name="rows")
    model = keras.Sequential([keras.layers.TimeDistributed(rows), keras.layers.Flatten()])
    documents = draw(2, 3, 5, WIDTH)
    maps = attention_maps(model, documents)
    assert names(maps) == ["rows[call=0]", "rows[call=1]", "rows[call=2]"]
    for place in range(3):
        np.testing.assert_array_equal(weights_of(maps, place), own(rows, documents[:, place]))


def test_sentences_that_a_model_puts_into_the_batch_are_parts_of_their_document():
    look, rows = LuongAttention(name="look"), Pooling(name="pool")

    def call(look, pool, documents):
        words = ops.reshape(documents, (6, 5, WIDTH))
        return pool(look([words, words]))

    documents = draw(2, 3, 5, WIDTH)
    maps = attention_maps(Calling(call, look, rows), documents)
    words = documents.reshape(6, 5, WIDTH)
    expected = own(look, [words, words])
    assert maps[0][0].axes == ("part",)
    np.testing.assert_array_equal(weights_of(maps), expected.reshape(2, 3, 5, 5))
    assert maps[0][1].axes == ()  # the weights of a pooling have no rows: the sentences are
    np.testing.assert_array_equal(weights_of(maps, 1), own(rows, look([words, words])).reshape(2, 3, 5))


class Pooling(keras.layers.Layer):
    """A user's own attention: (B, T, D) → (B, D), weights (B, T)."""

    def call(self, inputs, return_attention_scores=False):
        weights = ops.softmax(ops.sum(inputs, axis=-1), axis=-1)
        read = ops.einsum("bt,btd->bd", weights, inputs)
        return (read, weights) if return_attention_scores else read


def test_a_layer_of_the_users_own_is_asked_by_its_signature():
    layer = Pooling(name="pool")
    maps = attention_maps(Calling(lambda pool, x: pool(x), layer), INPUTS)
    np.testing.assert_array_equal(weights_of(maps), own(layer, INPUTS)[:, None])
    assert (maps[0][0].kind, maps[0][0].rows) == ("pooling", ("0",))


def test_what_a_layer_returns_besides_its_weights_stays():
    class Caching(Pooling):
        def call(self, inputs, return_attention_scores=False):
            read, weights = super().call(inputs, True)
            return (read, weights, inputs) if return_attention_scores else (read, inputs)

    model = Calling(lambda pool, x: pool(x)[0] + ops.sum(pool(x)[1], axis=1), Caching(name="pool"))
    assert names(attention_maps(model, INPUTS)) == ["pool[call=0]", "pool[call=1]"]


def test_a_nested_model_is_searched():
    inner = functional()
    ids = keras.Input((5,), dtype="int32")
    maps = attention_maps(keras.Model(ids, keras.layers.Flatten()(inner(ids))), IDS)
    assert names(maps) == ["look", "rows"]
    np.testing.assert_array_equal(weights_of(maps), weights_of(attention_maps(inner, IDS)))


def test_layers_in_layers_lists_and_dicts_are_found_and_those_of_one_name_told_apart():
    class Block(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.looks = {"first": [LuongAttention(name="look")]}

        def build(self, input_shape):
            self.looks["first"][0].build([input_shape, input_shape])

        def call(self, x):
            return self.looks["first"][0]([x, x])

    model = keras.Sequential([Block(name="lower"), Block(name="upper")], name="net")
    maps = attention_maps(model, INPUTS)
    assert names(maps) == ["net/lower/look", "net/upper/look"]
    assert [one.layer for one in maps[0]] == names(maps)


def test_a_layer_alone_is_a_model():
    layer = LuongAttention(name="look")
    maps = attention_maps(layer, [INPUTS, draw(2, 3, WIDTH, seed=1)])
    np.testing.assert_array_equal(weights_of(maps), own(layer, [INPUTS, draw(2, 3, WIDTH, seed=1)]))


def test_inputs_may_be_a_dict_or_tensors():
    model = Calling(lambda look, x: look([x["query"], x["value"]]), LuongAttention(name="look"))
    arrays = {"query": INPUTS, "value": draw(2, 3, WIDTH, seed=1)}
    tensors = {name: ops.convert_to_tensor(one) for name, one in arrays.items()}
    np.testing.assert_array_equal(weights_of(attention_maps(model, arrays)), weights_of(attention_maps(model, tensors)))


def test_one_memory_for_all_examples_has_a_map_in_each():
    memory = ops.convert_to_tensor(draw(1, 4, WIDTH, seed=3))

    def call(look, x):
        return x + ops.sum(look([memory, memory]), axis=1, keepdims=True)

    maps = attention_maps(Calling(call, LuongAttention(name="look")), INPUTS)
    np.testing.assert_array_equal(maps[0][0].weights, maps[1][0].weights)


def test_a_batch_that_is_no_multiple_is_refused():
    model = Calling(lambda look, x: look([x[:2], x[:2]]), LuongAttention(name="look"))
    with pytest.raises(ValueError, match="The layer 'look' saw 2 rows for 3 examples. Expected as many, or a multiple"):
        attention_maps(model, draw(3, 5, WIDTH))


def test_channels_and_heads_are_named():
    channels = MultiDimAttention(units=4, name="channels")
    heads = keras.layers.MultiHeadAttention(2, 4, name="heads")
    maps = attention_maps(Calling(lambda a, b, x: b(a([x, x]), x), channels, heads), INPUTS)
    assert [one.axes for one in maps[0]] == [("channel",), ("head",)]
    np.testing.assert_array_equal(weights_of(maps), own(channels, [INPUTS, INPUTS]))


class Hops(keras.layers.Layer):
    """Follows the protocol of this library: names its axes and its weights, and reports for the layer it holds."""

    weights_axes = {"hops": ("hop",), "last": ()}  # noqa: RUF012

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.look = LuongAttention(name="inner")
        self.encode = keras.layers.MultiHeadAttention(2, 4, name="encoder")

    def build(self, input_shape):
        self.look.build([input_shape, input_shape])
        self.encode.build(input_shape, input_shape)

    def call(self, inputs, return_attention_scores=False):
        state, hops = self.encode(inputs, inputs), []
        for _ in range(2):
            state, weights = self.look([state, inputs], return_attention_scores=True)
            hops.append(weights)
        weights = (ops.stack(hops, axis=1), ops.mean(hops[-1], axis=1))
        return (state, *weights) if return_attention_scores else state


def test_a_layer_that_says_so_names_its_weights_and_reports_for_those_it_holds():
    layer = Hops(name="memory")
    maps = attention_maps(Calling(lambda memory, x: memory(x), layer), INPUTS)
    # The encoder is not among what it reports. The hops inside are, and are not told twice.
    assert names(maps) == ["encoder", "memory/hops", "memory/last"]
    _, hops, last = layer(INPUTS, return_attention_scores=True)
    np.testing.assert_array_equal(weights_of(maps, 1), array(hops).astype("float32"))
    np.testing.assert_array_equal(weights_of(maps, 2), array(last).astype("float32")[:, None])
    assert [one.axes for one in maps[0]] == [("head",), ("hop",), ()]


def test_wrong_names_of_axes_are_refused():
    class Wrong(Pooling):
        weights_axes = ("head", "hop", "channel")

    with pytest.raises(ValueError, match=r"'pool' gave weights of rank 2, and its `weights_axes` are \('head', 'hop'"):
        attention_maps(Calling(lambda pool, x: pool(x), Wrong(name="pool")), INPUTS)


def test_a_block_of_the_users_own_is_not_asked_where_the_layers_in_it_are():
    class Block(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.heads = keras.layers.MultiHeadAttention(2, 4, name="heads")

        def build(self, input_shape):
            self.heads.build(input_shape, input_shape)

        def call(self, inputs, return_attention_scores=False):
            assert not return_attention_scores
            return self.heads(inputs, inputs)

    assert names(attention_maps(Calling(lambda block, x: block(x), Block()), INPUTS)) == ["heads"]


def test_models_that_are_not_built_are_built_by_the_call():
    layer = LuongAttention("general", name="look")
    model = Calling(lambda look, x: look([x, x]), layer)
    assert not model.built
    maps = attention_maps(model, INPUTS)
    assert names(maps) == ["look"]
    np.testing.assert_array_equal(weights_of(maps), own(layer, [INPUTS, INPUTS]))


@tensorflow_only
def test_compiled_functions_inside_the_model_run_eagerly_for_the_call():
    import tensorflow as tf

    class Compiled(keras.Model):
        def __init__(self):
            super().__init__()
            self.look = LuongAttention("general", name="look")

        @tf.function
        def call(self, x):
            return self.read(x)

        @tf.function(input_signature=[tf.TensorSpec([None, None, WIDTH])], jit_compile=True)
        def read(self, x):
            return self.look([x, x])

    model = Compiled()
    before = array(model(INPUTS))
    maps = attention_maps(model, INPUTS)
    np.testing.assert_array_equal(weights_of(maps), own(model.look, [INPUTS, INPUTS]))
    np.testing.assert_array_equal(array(model(INPUTS)), before)
    assert not tf.config.functions_run_eagerly()


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="jax.jit")
def test_compiled_functions_of_jax_run_eagerly_for_the_call():
    import jax

    look = LuongAttention("general", name="look")
    model = Calling(lambda look, x: jax.jit(lambda x: look([x, x]))(x), look)
    look.build([INPUTS.shape, INPUTS.shape])
    maps = attention_maps(model, INPUTS)
    np.testing.assert_allclose(weights_of(maps), own(look, [INPUTS, INPUTS]), atol=1e-7)


def test_rematerialised_layers_are_heard():
    with keras.RematScope(mode="full"):
        model = functional()
    # Keras looks at the scope where a layer is made; eager calls then go through the backend's checkpoint.
    maps = attention_maps(model, IDS)
    assert names(maps) == ["look", "rows"]
    assert (weights_of(maps, 1)[0, :, 3:] == 0).all()


def test_a_call_inside_of_a_graph_is_named():
    layer = LuongAttention(name="look")
    layer.build([(None, 5, WIDTH), (None, 5, WIDTH)])
    model = Calling(lambda look, x: ops.vectorized_map(lambda one: look([one[None], one[None]])[0], x), layer)
    with pytest.raises(ValueError, match=r"'look' \(LuongAttention\) was called inside a graph, where weights have no"):
        attention_maps(model, INPUTS)
    assert model(INPUTS).shape == (2, 5, WIDTH)
