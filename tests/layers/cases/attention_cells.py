"""`AttentionRNN` over `BahdanauCell` and `LuongCell`, against the loops of the papers, number by number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np

from keras_attention import layers
from tests import reference
from tests.backends import BACKEND
from tests.layers.case import Case

EMBEDDED, UNITS, JOINED, VALUE_DIM, KEY_DIM = 3, 8, 9, 7, 5


def part(weights, name):
    """The weights of the part of this name, by their own names."""
    return {path.split("/")[-1]: one for path, one in weights.items() if name in path.split("/")}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def simple_rnn(x, states, weights):
    """`h = tanh(W x + U h + b)`."""
    h = np.tanh(weights["kernel"].T @ x + weights["recurrent_kernel"].T @ states[0] + weights["bias"])
    return h, [h]


def gru(x, states, weights):
    """Cho et al., 2014, the reset gate after the product, as Keras' GRU has it: update, reset, candidate."""
    of_x = np.split(weights["kernel"].T @ x + weights["bias"][0], 3)
    of_h = np.split(weights["recurrent_kernel"].T @ states[0] + weights["bias"][1], 3)
    update, reset = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
    h = update * states[0] + (1 - update) * np.tanh(of_x[2] + reset * of_h[2])
    return h, [h]


def lstm(x, states, weights):
    """Hochreiter and Schmidhuber, 1997, with forget gates: input, forget, candidate, output."""
    sums = weights["kernel"].T @ x + weights["recurrent_kernel"].T @ states[0] + weights["bias"]
    write, forget, candidate, give = np.split(sums, 4)
    c = sigmoid(forget) * states[1] + sigmoid(write) * np.tanh(candidate)
    h = sigmoid(give) * np.tanh(c)
    return h, [h, c]


def soft(score):
    """One step of a soft attention: query, its number, keys, kept, length, weights before, the layer's weights → a."""

    def attend(query, t, keys, keep, length, before, weights):
        return reference.masked_softmax(np.array([score(query, key, weights) for key in keys]), keep)

    return attend


def coverage(query, t, keys, keep, length, before, weights):
    """See et al., 2017, equation 11: the score sees the sum of the weights before."""
    scores = [
        weights["scale"]
        @ np.tanh(
            weights["key_kernel"].T @ key
            + weights["query_kernel"].T @ query
            + weights["coverage_kernel"] * sum((a[s] for a in before), 0.0)
            + weights["bias"]
        )
        for s, key in enumerate(keys)
    ]
    return reference.masked_softmax(np.array(scores), keep)


def local_monotonic(query, t, keys, keep, length, before, weights):
    """Luong et al., 2015, section 3.2, local-m, D = 1: step t looks about place t."""
    centre = min(t, max(length - 1, 0))
    near = np.abs(np.arange(len(keys)) - centre) <= 1
    scores = np.array([reference.general(query, key, weights) for key in keys])
    return reference.masked_softmax(scores, keep & near)


def bahdanau(x, states, memory, attend, step, weights):
    """Bahdanau et al., 2015, section 3.1: `c_i = attend(s_{i−1})`, `s_i = f([y; c_i], s_{i−1})`."""
    a = attend(states[0], *memory[1:])
    c = a @ memory[0]
    s, states = step(np.concatenate([x, c]), states, part(weights, "inner"))
    return s, a, c, states


def luong(x, fed, states, memory, attend, step, weights):
    """Luong et al., 2015, section 3.1 and equation 5: `s = f([y; fed], s)`, `h̃ = tanh(W_c [c; s])`."""
    s, states = step(np.concatenate([x, fed]), states, part(weights, "inner"))
    a = attend(s, *memory[1:])
    c = a @ memory[0]
    (matrix,) = (one for path, one in weights.items() if path.endswith("combine_kernel"))
    return np.tanh(matrix.T @ np.concatenate([c, s])), a, c, states


def loop(order, attend, step, num_states, feed=None, output_context=False):
    """The reference of a cell: row after row, step after step; a masked step is no step, and its outputs are 0."""

    def of(arrays, masks, weights):
        looks, query, value = part(weights, "looks"), arrays["query"], arrays["value"]
        width = JOINED if order is luong else UNITS + VALUE_DIM * output_context
        outputs, maps = np.zeros((*query.shape[:2], width)), np.zeros((*query.shape[:2], value.shape[1]))
        for b in range(len(query)):
            kept = masks["value"][b]
            length = int(np.flatnonzero(kept)[-1]) + 1 if kept.any() else 0
            states = [arrays[name][b] for name in ("start", "start_c")[:num_states]]
            fed = {None: None, "nothing": [], "context": np.zeros(VALUE_DIM), "attentional": np.zeros(JOINED)}[feed]
            before = []
            for t in np.flatnonzero(masks["query"][b]):
                memory = (value[b], len(before), arrays["key"][b], kept, length, before, looks)
                if order is bahdanau:
                    out, a, c, states = bahdanau(query[b, t], states, memory, attend, step, weights)
                    out = np.concatenate([out, c]) if output_context else out
                else:
                    out, a, c, states = luong(query[b, t], fed, states, memory, attend, step, weights)
                    fed = {"nothing": [], "context": c, "attentional": out}[feed]
                before.append(a)
                outputs[b, t], maps[b, t] = out, a
        return {"outputs": outputs, "weights": maps}

    return of


def call(layer, arrays, masks, **more):
    start = [arrays[name] for name in ("start", "start_c") if name in arrays]
    mask = [masks.get("query"), masks.get("value")] if masks else None
    outputs, weights = layer(
        [arrays[name] for name in ("query", "value", "key")],
        mask=mask,
        initial_state=start,
        return_attention_scores=True,
        **more,
    )
    return {"outputs": outputs, "weights": weights}


@dataclass(frozen=True)
class CellCase(Case):
    """A case whose layer is made of parts: `parts` makes the cell, all of it in the precision asked for."""

    parts: Callable = None

    def make(self, **more):
        dtype = {"dtype": more["dtype"]} if "dtype" in more else {}
        return self.layer(**{"cell": self.parts(**dtype), **more})


STEPS = {
    "rnn": (keras.layers.SimpleRNNCell, simple_rnn, 1),
    "gru": (keras.layers.GRUCell, gru, 1),
    "lstm": (keras.layers.LSTMCell, lstm, 2),
}
ATTENTIONS = {
    "general": (layers.LuongAttention, {"score": "general"}, soft(reference.general)),
    "additive": (layers.BahdanauAttention, {"units": 7}, soft(reference.additive)),
    "coverage": (layers.CoverageAttention, {"units": 7}, coverage),
    "local_m": (layers.LocalAttention, {"radius": 1, "position": "monotonic"}, local_monotonic),
}


LEFT_OUT = {
    "permutation": "its steps follow each other",
    "tflite of any lengths": "keras.layers.RNN gathers the steps in a list, which has a known length there; a device "
    "steps the cell, which converts with values of any length (test_attention_cells.py)",
}


def cell_case(kind, inner, attention, left_out=None, **options):
    """A case of AttentionRNN over a cell of this kind; the reference follows from the names."""
    inner_class, step, num_states = STEPS[inner]
    attention_class, attention_options, attend = ATTENTIONS[attention]
    order, cell_class = {"bahdanau": (bahdanau, layers.BahdanauCell), "luong": (luong, layers.LuongCell)}[kind]
    options = {**({"units": JOINED, "feed": "attentional"} if kind == "luong" else {}), **options}

    def parts(**dtype):
        inner_cell = inner_class(UNITS, name="inner", **dtype)
        looks = attention_class(**attention_options, name="looks", **dtype)
        return cell_class(inner_cell, looks, **options, **dtype)

    starts = ("start", "start_c")[:num_states]
    return CellCase(
        name="_".join([kind, inner, attention, *(str(one) for one in options.values() if one != JOINED)]),
        layer=layers.AttentionRNN,
        options={},
        sizes={"batch": 2, "query": 4, "value": 6},
        arrays={
            "query": ("batch", "query", EMBEDDED),
            "value": ("batch", "value", VALUE_DIM),
            "key": ("batch", "value", KEY_DIM),
            **dict.fromkeys(starts, ("batch", UNITS)),
        },
        masks={"query": ("batch", "query"), "value": ("batch", "value")},
        outputs={"outputs": ("batch", "query", JOINED if kind == "luong" else UNITS + VALUE_DIM * bool(options))},
        weights={"weights": ("batch", "query", "value")},
        looks_at={"weights": "value"},
        asked_by={"weights": "query"},
        call=call,
        reference=loop(order, attend, step, num_states, **{k: v for k, v in options.items() if k != "units"}),
        left_out={**LEFT_OUT, **(left_out or {})},
        half_bound=4.0,  # three steps, each from the one before
        parts=parts,
    )


# Cases that the tests of single properties leave out: test_backends_agree.py alone has them.
ONLY_AGREEMENT: set[str] = set()

WINDOW = {"every kept place is seen": "it sees its window only"}

CASES = [
    cell_case("bahdanau", "gru", "additive"),
    cell_case("bahdanau", "lstm", "coverage", output_context=True),
    cell_case("luong", "rnn", "additive", feed="nothing"),
    cell_case("luong", "gru", "local_m", WINDOW, feed="context"),
    cell_case("luong", "lstm", "general", feed="attentional"),
]

if BACKEND == "jax":  # it compiles the loop anew in each call outside of jax.jit, seconds each: one of each order
    ONLY_AGREEMENT = {case.name for case in CASES if "lstm" not in case.name}
