"""`HierarchicalAttention`: words in sentences, sentences in documents, each level read by attention."""

from __future__ import annotations

import inspect

import keras
from keras import ops

from keras_attention.layers.attentive_pooling import AttentivePooling
from keras_attention.layers.sequence_pooling import SequencePooling, check_rank, check_sequence_mask

__all__ = ["HierarchicalAttention"]

_NESTED = ("word_encoder", "sentence_encoder", "word_pooling", "sentence_pooling")


@keras.saving.register_keras_serializable("keras_attention")
class HierarchicalAttention(keras.layers.Layer):
    """Hierarchical attention: reads the words of each sentence into a vector, then these vectors into one a document.

    Yang et al., 2016 (NAACL, N16-1174), section 2: a word encoder, attention over words (equations 5 to 7), a sentence
    encoder, attention over sentences (equations 8 to 10). Their encoders are bidirectional GRUs.
    Differs from the paper: none with such encoders; both encoders and both poolings are exchangeable.

    A sentence of padding, with all its words masked, is harmless: its weights are 0, it gets no gradient, and no
    encoder ever sees a row with nothing to keep, at which cuDNN fails. Encoders get 0 for what is masked, the mask
    wherever their `call` takes one, and what they say of masked places is dropped: so padding changes nothing with
    recurrent, attentive and pointwise encoders, nor with one convolution. A model of several layers as an encoder
    passes the mask on itself. TFLite runs a recurrent word encoder for a fixed number of sentences only.

    Args:
        units: int > 0. Width U of the hidden layer of each `AttentivePooling` that is made here; leave it out where
            both poolings are given.
        word_encoder: layer or model over (N, W, D) → (N, W, D'), such as `Bidirectional(GRU(50,
            return_sequences=True))`; None reads the words as they are.
        sentence_encoder: layer or model over (B, S, D') → (B, S, D''); None reads the sentences as they are.
        word_pooling, sentence_pooling: `SequencePooling`: `AttentivePooling`, `GatedPooling`, `MaxPooling`,
            `MeanPooling`, or a subclass of the user's own. Default: `AttentivePooling(units)`.

    Call arguments:
        inputs: float (B, S, W, D): B documents of S sentences of W words.
        mask: bool (B, S, W), True = keep; default is the mask that Keras passes on, or keeps all.
        return_attention_scores: bool. Also return the weights.
        training: bool. For dropout in the encoders and poolings.

    Returns:
        `context` (B, D''), D'' being D where there are no encoders; with `return_attention_scores`, `context`,
        `word_weights` (B, S, W) and `sentence_weights` (B, S). Masked words and sentences without words have exactly 0;
        a document without words is all 0. The context has no mask.

    Raises:
        ValueError: `units` missing or superfluous or < 1, a wrong rank, or an encoder that does not keep the length.
        TypeError: a mask that is not bool, an encoder that is no layer, or a pooling that is no `SequencePooling`.

    Example:
    >>> encode = lambda: keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True))
    >>> layer = HierarchicalAttention(16, word_encoder=encode(), sentence_encoder=encode())
    >>> words = keras.layers.Embedding(100, 6, mask_zero=True)(keras.ops.ones((2, 3, 5), "int32"))
    >>> [one.shape for one in layer(words, return_attention_scores=True)]
    [TensorShape([2, 8]), TensorShape([2, 3, 5]), TensorShape([2, 3])]
    """

    weights_axes = {"words": (), "sentences": ()}  # noqa: RUF012 - names of its two weights, none with further axes

    def __init__(
        self,
        units=None,
        word_encoder=None,
        sentence_encoder=None,
        word_pooling=None,
        sentence_pooling=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.word_encoder = _checked_encoder("word_encoder", word_encoder)
        self.sentence_encoder = _checked_encoder("sentence_encoder", sentence_encoder)
        poolings = {"word_pooling": word_pooling, "sentence_pooling": sentence_pooling}
        self.made_here = tuple(name for name, pooling in poolings.items() if pooling is None)
        if units is None and self.made_here:
            raise ValueError(
                f"`units` is the width of the pooling that is made here, an int > 0, or `{self.made_here[0]}` must be "
                f"given. Received neither. Pass `units`, or a pooling such as `MeanPooling()`."
            )
        if units is not None and not self.made_here:
            raise ValueError(
                f"Both poolings are given and have widths of their own. Received units={units!r}. Leave it out."
            )
        if word_pooling is not None and word_pooling is sentence_pooling:
            raise ValueError(
                "The two poolings must be two layers. Received one for both. Make another for the sentences."
            )
        for name in self.made_here:
            poolings[name] = AttentivePooling(units, name=name, dtype=self.dtype_policy)
        self.word_pooling = _checked_pooling("word_pooling", poolings["word_pooling"])
        self.sentence_pooling = _checked_pooling("sentence_pooling", poolings["sentence_pooling"])
        self.supports_masking = True

    def build(self, input_shape):
        check_rank("documents", input_shape, "(B, S, W, D)")
        sentence = self.build_level(self.word_encoder, self.word_pooling, (None, *input_shape[2:]))
        self.build_level(self.sentence_encoder, self.sentence_pooling, (None, input_shape[1], sentence[-1]))
        self.built = True

    def build_level(self, encoder, pooling, shape):
        """Builds an encoder and the pooling after it for a sequence of a shape (N, T, D) → shape of what it becomes."""
        if encoder is not None:  # called, not only built, as what layers of the user's own give is not known before
            encoded = encoder(keras.KerasTensor(shape, self.compute_dtype))
            shape = _checked_encoding(encoder, shape, encoded).shape
        if not pooling.built:
            pooling.build(shape)
        return pooling.compute_output_shape(shape)

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        self.check_call(inputs, mask)
        batch, num_sentences, num_words, _ = ops.shape(inputs)
        rows = batch * num_sentences  # not -1: converters to TFLite must see how many rows a recurrent encoder gets
        words = ops.reshape(inputs, (rows, num_words, inputs.shape[-1]))
        word_mask, sentence_mask = None, None
        if mask is not None:
            word_mask, sentence_mask = ops.reshape(mask, (rows, num_words)), ops.any(mask, axis=-1)
        sentence, word_weights = self.read_words(words, word_mask, training)
        sentences = ops.reshape(sentence, (batch, num_sentences, sentence.shape[-1]))
        context, sentence_weights = self.read_sentences(sentences, sentence_mask, training)
        if not return_attention_scores:
            return context
        return context, ops.reshape(word_weights, (batch, num_sentences, num_words)), sentence_weights

    def read_words(self, words, mask=None, training=None):
        """The words of N sentences (N, W, D), mask (N, W) → the sentences (N, D'), and the weights (N, W)."""
        encoded = encode(self.word_encoder, words, mask)
        return self.word_pooling(encoded, mask=mask, return_attention_scores=True, training=training)

    def read_sentences(self, sentences, mask=None, training=None):
        """The sentences of B documents (B, S, D'), mask (B, S) → the documents (B, D''), and the weights (B, S)."""
        encoded = encode(self.sentence_encoder, sentences, mask)
        context, weights = self.sentence_pooling(encoded, mask=mask, return_attention_scores=True, training=training)
        return ops.cast(context, self.compute_dtype), weights

    def check_call(self, inputs, mask):
        check_rank("documents", inputs.shape, "(B, S, W, D)")
        check_sequence_mask("mask", mask, inputs.shape[:3], "(B, S, W)")

    def compute_mask(self, inputs, mask=None):
        """None: no word and no sentence is left."""
        return None

    def compute_output_shape(self, input_shape):
        check_rank("documents", input_shape, "(B, S, W, D)")
        shape = (None, *input_shape[2:])
        for encoder, pooling, length in (
            (self.word_encoder, self.word_pooling, input_shape[1]),
            (self.sentence_encoder, self.sentence_pooling, None),
        ):
            if encoder is not None:
                shape = encoder.compute_output_spec(keras.KerasTensor(shape, self.compute_dtype)).shape
            shape = (None, length, pooling.compute_output_shape(shape)[-1])
        return (input_shape[0], shape[-1])

    def compute_output_spec(self, inputs, mask=None, return_attention_scores=False, training=None):
        self.check_call(inputs, mask)
        context = keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)
        if not return_attention_scores:
            return context
        wide = [
            "float64" if pooling.compute_dtype == "float64" else "float32"
            for pooling in (self.word_pooling, self.sentence_pooling)
        ]
        return context, keras.KerasTensor(inputs.shape[:3], wide[0]), keras.KerasTensor(inputs.shape[:2], wide[1])

    def get_config(self):
        nested = {}
        for name in _NESTED:
            layer = None if name in self.made_here else getattr(self, name)
            # Built again by this layer, so that its weights keep their paths.
            nested[name] = _without_builds(keras.saving.serialize_keras_object(layer))
        return {**super().get_config(), "units": self.units, **nested}

    @classmethod
    def from_config(cls, config):
        nested = {name: keras.saving.deserialize_keras_object(config.get(name)) for name in _NESTED}
        return cls(**{**config, **nested})


def encode(encoder, inputs, mask):
    """What an encoder makes of a padded sequence, 0 where it is masked; without an encoder, the sequence itself.

    encoder over (N, T, D) or None, inputs (N, T, D), mask (N, T) or None → (N, T, D').
    """
    if encoder is None:
        return inputs
    if mask is None:
        return _checked_encoding(encoder, inputs.shape, encoder(inputs))
    keep = ops.expand_dims(mask, -1)
    inputs = ops.where(keep, inputs, ops.zeros_like(inputs))
    # Of an empty row the first place is shown: recurrent layers on cuDNN fail on a row with nothing to keep.
    is_empty = ops.logical_not(ops.any(mask, axis=1, keepdims=True))
    first = ops.logical_and(is_empty, ops.equal(ops.arange(ops.shape(mask)[1]), 0))
    encoded = encoder(inputs, mask=ops.logical_or(mask, first)) if _takes_mask(encoder) else encoder(inputs)
    encoded = _checked_encoding(encoder, inputs.shape, encoded)
    return ops.where(keep, encoded, ops.zeros_like(encoded))


def _checked_encoder(name, encoder):
    if encoder is not None and not isinstance(encoder, keras.layers.Layer):
        raise TypeError(f"`{name}` must be a Keras layer or model over (N, T, D), or None. Received {encoder!r}.")
    if encoder is not None and _takes_mask(encoder):
        # It keeps the places, so their mask holds for what it returns. Keras warns of all models that say nothing here.
        encoder.supports_masking = True
    return encoder


def _without_builds(config):
    """A config without the shapes that layers, and the layers inside them, were built with."""
    if isinstance(config, dict):
        return {key: _without_builds(value) for key, value in config.items() if key != "build_config"}
    return [_without_builds(value) for value in config] if isinstance(config, (list, tuple)) else config


def _takes_mask(encoder):
    return "mask" in inspect.signature(encoder.call).parameters


def _checked_pooling(name, pooling):
    if not isinstance(pooling, SequencePooling):
        raise TypeError(
            f"`{name}` must be a keras_attention.layers.SequencePooling, such as MeanPooling(). Received {pooling!r}."
        )
    return pooling


def _checked_encoding(encoder, shape, encoded):
    """`encoded`, which must be one tensor with the places of the sequence that went in, of `shape`."""
    found = getattr(encoded, "shape", None)
    if found is None or len(found) != 3 or (None not in (shape[1], found[1]) and shape[1] != found[1]):
        received = f"a {type(encoded).__name__}" if found is None else tuple(found)
        raise ValueError(
            f"The encoder {encoder.name!r} must give one tensor (N, T, D') for a sequence (N, T, D), here "
            f"{tuple(shape)}. Received {received}. Recurrent layers do so with `return_sequences=True` and without "
            f"`return_state`, convolutions with `padding='same'`."
        )
    return encoded
