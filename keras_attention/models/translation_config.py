"""Settings of the family `translation`, and the checks of its search options."""

from __future__ import annotations

import dataclasses

from keras_attention.models.attention_decoder import FEEDS, ORDERS
from keras_attention.models.embeddings import EMBEDDINGS, check_embeddings
from keras_attention.models.mechanisms import MECHANISMS, make_attention
from keras_attention.models.model_config import ModelConfig
from keras_attention.models.plain_decoder import CONTEXTS, WIRINGS
from keras_attention.models.recurrent_cells import CELLS
from keras_attention.models.scheduled_sampling import check_schedule
from keras_attention.models.search_options import check_number

__all__ = ["TranslationConfig"]


@dataclasses.dataclass(frozen=True)
class TranslationConfig(ModelConfig):
    """Settings of a `TranslationModel`.

    Attributes:
        vocabulary_size: pieces of the tokenizer, which both languages share.
        embedding_dim: width of the embeddings.
        units: width of the states of encoder (both directions together) and decoder.
        cell: "gru" or "lstm".
        num_layers: layers of the encoder and of the decoder each; the states are handed over layer by layer.
        bidirectional: whether the encoder reads in both directions.
        attention: the decoder's attention, by name: one of `mechanisms.MECHANISMS`, or "none".
        attention_options: dict. Further arguments of that layer, such as `{"radius": 5}`.
        score: score of the attention, by name (see `keras_attention.scores.get`), where it takes one.
        score_units: width of the score's hidden layer, for "concat" and "additive".
        order: when the decoder attends: "luong" (step, then attend), "bahdanau" (attend, then step) or "conditional" (a
            step, attend, another step).
        feed: what the decoder's next step gets besides the last token: "nothing", "context" or "attentional" (input
            feeding).
        wiring, encoder_context: how a decoder without attention knows the input; see `PlainDecoder`.
        layer_normalization: whether the encoder's states, the decoder's gates and h̃ are normalised.
        tie_embeddings: "none"; "output": the decoder's embeddings are its output matrix; "all": and the encoder's
            embeddings too.
        source_embeddings, target_embeddings: "trained"; "frozen", which stay as they start (see `set_word_vectors`); or
            "one_hot", as wide as the vocabulary, for small ones, whatever embedding_dim says.
        embedding_dropout: share dropped of the embeddings.
        dropout: share dropped between layers, and of the attentional vector h̃.
        state_dropout: share dropped of the encoder's states.
        label_smoothing: ε of the training loss.
        scheduled_sampling: dict. How likely, step by step of the training, the decoder is fed the true token; {} feeds
            nothing else. `{"decay": "linear", "start": 1.0, "slope": 1e-5, "end": 0.25}`, `{"decay": "exponential",
            "base": 0.9999}` or `{"decay": "inverse_sigmoid", "k": 2000}`; see `scheduled_sampling.gold_probability`.
        max_length: longest input and output in pieces, the end included.
        beam_size, length_penalty: of the search, where the caller names none.
    """

    vocabulary_size: int
    embedding_dim: int
    units: int
    cell: str = "gru"
    num_layers: int = 1
    bidirectional: bool = True
    attention: str = "luong"
    attention_options: dict = dataclasses.field(default_factory=dict)
    score: str = "general"
    score_units: int | None = None
    order: str = "luong"
    feed: str = "attentional"
    wiring: str = "states"
    encoder_context: str = "last"
    layer_normalization: bool = False
    tie_embeddings: str = "all"
    source_embeddings: str = "trained"
    target_embeddings: str = "trained"
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    state_dropout: float = 0.0
    label_smoothing: float = 0.0
    scheduled_sampling: dict = dataclasses.field(default_factory=dict)
    max_length: int = 64
    beam_size: int = 4
    length_penalty: float = 1.0

    def __post_init__(self):
        for name, low in (
            ("vocabulary_size", 5),
            ("embedding_dim", 1),
            ("units", 1),
            ("num_layers", 1),
            ("max_length", 2),
        ):
            self.check_int(name, low)
        self.check_int("beam_size", 1)
        for name in ("embedding_dropout", "dropout", "state_dropout", "label_smoothing"):
            self.check_share(name)
        self.check_bool("bidirectional")
        self.check_bool("layer_normalization")
        self.check_choice("cell", tuple(CELLS))
        self.check_choice("attention", ("none", *MECHANISMS))
        self.check_choice("order", ORDERS)
        self.check_choice("feed", FEEDS)
        self.check_choice("wiring", tuple(WIRINGS))
        self.check_choice("encoder_context", CONTEXTS)
        self.check_choice("tie_embeddings", ("none", "output", "all"))
        self.check_choice("source_embeddings", EMBEDDINGS)
        self.check_choice("target_embeddings", EMBEDDINGS)
        check_embeddings(self)
        if self.bidirectional and self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")
        check_number("length_penalty", self.length_penalty, 0)
        if self.scheduled_sampling != {}:
            check_schedule(self.scheduled_sampling)
            if self.attention == "none" and not WIRINGS[self.wiring][0]:
                raise ValueError(
                    f"`scheduled_sampling` chooses the token that is fed, but the wiring {self.wiring!r} feeds none. "
                    "Leave it out, or choose another wiring."
                )
        if not isinstance(self.attention_options, dict):
            raise ValueError(f"`attention_options` must be a dict. Received {self.attention_options!r}.")
        if self.attention != "none":  # refuses what the layer refuses, before any weight is made
            make_attention(self.attention, self.score, self.score_units, self.attention_options, None)

    @property
    def least_parameters(self) -> int:
        """A number of weights that no model of these settings gets below."""
        one_hot = self.source_embeddings == self.target_embeddings == "one_hot"
        width = self.units // 2 if one_hot else self.embedding_dim
        return self.vocabulary_size * width + self.num_layers * self.units**2
