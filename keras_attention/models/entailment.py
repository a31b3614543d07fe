"""Textual entailment: whether a premise entails a hypothesis, and which words were held against each other."""

from __future__ import annotations

import tensorflow as tf

from keras_attention.maps import AttentionMap
from keras_attention.models.entailment_config import EntailmentConfig
from keras_attention.models.label_model import LabelModel
from keras_attention.models.pair_readers import READERS

__all__ = ["EntailmentModel"]


class EntailmentModel(LabelModel):
    """A premise and a hypothesis read against each other, and a label of how one follows from the other.

    Parikh et al., 2016 (arXiv 1606.01933) or Rocktäschel et al., 2016 (arXiv 1509.06664), by `config.method`; see
    `pair_readers`.

    Args:
        config: `EntailmentConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer` or another; without one the model reads ids only.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `premise` int32 (B, Tp) and `hypothesis` int32 (B, Th), padded with 0.

    Returns:
        logits (B, C).

    Example:
        model = keras_attention.zoo.load("entail_decomposable")
        model.entail("Two women are hugging.", "Nobody is hugging.").output
    """

    family, task, verb = "entailment", "entailment", "entail"
    columns = ("premise", "hypothesis", "label")
    input_columns = 2
    text_columns = ("premise", "hypothesis")
    config_class = EntailmentConfig

    def build_network(self):
        config = self.config
        options = {"interaction": True} if config.interaction else {}
        self.reader = READERS[config.method](
            config.units, config.dropout, dtype=self.dtype_policy, name="reader", **options
        )
        self.reader.build((None, None, config.embedding_dim))
        return self.reader.width

    def entail(self, premise, hypothesis=None, **options):
        """Labels one pair of sentences or a list of pairs.

        Args:
            premise: str; or, without `hypothesis`, a dict with both, or a list of such dicts.
            hypothesis: str.
            n_best: int > 0. How many labels, best first; the further ones are `alternatives`. Default 1.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs: `output` is the label, `score` its probability,
            `extra["probabilities"]` has that of each label. The map "hypothesis" has a row for each word of it, over
            the words of the premise; "decomposable" gives "premise" too, the other way round.

        Raises:
            TypeError, ValueError: see `run`.
        """
        if hypothesis is None:
            return self.run(premise, **options)
        return self.run({"premise": premise, "hypothesis": hypothesis}, **options)

    def read(self, inputs, training=None):
        ids = inputs["premise"], inputs["hypothesis"]
        embedded = [self.embed(one, training) for one in ids]
        masks = [tf.not_equal(one, self.pad_id) for one in ids]
        return self.reader(*embedded, *masks, training=training)

    def attention_maps(self, ids, weights):
        words = {name: self.tokenizer.tokens(ids[name]) for name in ("premise", "hypothesis")}
        other = {"hypothesis": "premise", "premise": "hypothesis"}
        maps = []
        for name, found in weights.items():
            rows, columns = words[name], words[other[name]]
            own = found[: len(rows), : len(columns)]
            maps.append(AttentionMap(name, "reader/attention", self.reader.kind, own, rows, columns))
        return maps
