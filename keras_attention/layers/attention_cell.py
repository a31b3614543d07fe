"""`AttentionCell`: what the decoder cells share: their states, their memory, their life inside `keras.layers.RNN`."""

from __future__ import annotations

import inspect
import math

import keras
from keras import ops

from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.cell_checks import (
    checked_attention,
    checked_cell,
    config_of,
    may_be,
    place_of_output,
    revived,
)
from keras_attention.layers.cell_randomness import draw_seed, draws, forget_masks, seeded, unmoved
from keras_attention.layers.cell_state import CellState, as_columns, from_columns
from keras_attention.layers.checks import check_mask, check_shapes
from keras_attention.layers.initial_state import InitialState

__all__ = ["AttentionCell"]


class AttentionCell(keras.layers.Layer):
    """Base of the decoder cells: an RNN cell that holds another one and an attention.

    A subclass gives the order of the two in `advance(inputs, state, training) → output, weights, state`, the width
    `fed_size` of what the inner cell gets beside the inputs, and `plain_size`, the width O of its output.

    What `keras.layers.RNN` carries is a list with one state, itself a list of float tensors (B, n): the last output,
    the states of the inner cell, the last context, the progress (step, seed, and the state of the attention, all in one
    tensor), and the key, value and mask of the prepared keys, flattened. Two axes each, because `RNN` masks states so;
    a list in a list, because it then asks for no widths, of which that of the memory changes from call to call; and the
    output first, because on JAX `RNN` looks there for what a masked step repeats.

    Args:
        cell: an RNN cell, a `keras.layers.Layer` such as `keras.layers.GRUCell`.
        attention: an `AttentionLayer`.
        return_attention_scores: bool. The outputs get the weights behind them; `split` takes both apart.
        seed: int. Seed of what is random in training.
    """

    fed_size: int
    plain_size: int

    def __init__(self, cell, attention, return_attention_scores=False, seed=None, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.cell = checked_cell(revived(cell))
        self.attention = checked_attention(revived(attention))
        self.return_attention_scores = bool(return_attention_scores)
        self.seed = seed
        self.value_shape = self.key_shape = self.input_width = None
        self.cell_sizes = tuple(keras.tree.flatten(self.cell.state_size))
        self.top = place_of_output(self.cell)
        self.query_size = self.cell_sizes[self.top]
        takes = inspect.signature(self.attention.initial_state).parameters
        self.start_arguments = {"training": True} if "training" in takes else {}
        self.is_random = draws(self.cell, self.attention)
        if self.is_random:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    @property
    def compute_dtype(self):
        """At least float32. `RNN` brings all states to this dtype: in half precision it could not count to 3000."""
        dtype = super().compute_dtype
        return "float32" if dtype in ("float16", "bfloat16") else dtype

    @property
    def narrow_dtype(self):
        """The dtype of the policy, in which the cell computes."""
        return self.dtype_policy.compute_dtype

    @property
    def state_size(self):
        return [[None, *self.cell_sizes, *[None] * 5]]

    @property
    def output_size(self):
        self.check_memory()
        if not self.return_attention_scores:
            return self.plain_size
        self.check_fixed_length(self.value_shape)
        return self.plain_size + math.prod(self.weights_shape(None, self.value_shape[1])[1:])

    def build_memory(self, value_shape, key_shape=None):
        """Builds what depends on the values: `initial_state` does it on its first call."""
        key_shape = value_shape if key_shape is None else key_shape
        query_shape = (None, None, self.query_size)
        check_shapes((value_shape[0], *query_shape[1:]), value_shape, key_shape)
        if self.value_shape is None:
            if not self.attention.built:
                with keras.name_scope(self.name):
                    self.attention.build([query_shape, tuple(value_shape), tuple(key_shape)])
            self.value_shape, self.key_shape = tuple(value_shape), tuple(key_shape)
            zeros = [ops.zeros((1, 1, shape[-1]), self.attention.compute_dtype) for shape in (value_shape, key_shape)]
            key = self.attention.prepare(*zeros).key
            self.prepared_key = (tuple(key.shape[2:]), keras.backend.standardize_dtype(key.dtype))
        for name, new, old in (("value", value_shape, self.value_shape), ("key", key_shape, self.key_shape)):
            if new[-1] != old[-1]:
                raise ValueError(
                    f"The cell was built for a {name} of width {old[-1]}. Received {name} {tuple(new)}. "
                    f"Pass that width, or make another cell."
                )

    def build(self, input_shape):
        self.check_memory()
        self.input_width = input_shape[-1]
        if not self.cell.built:
            self.cell.build((input_shape[0], input_shape[-1] + self.fed_size))
            self.cell.built = True
        self.build_output()
        self.built = True

    def build_output(self):
        """Makes the weights of the output, where there are some."""

    @property
    def context_size(self):
        """Dv."""
        return self.attention.compute_output_shape([(None, 1, 1), self.value_shape, self.key_shape])[-1]

    def weights_shape(self, batch, value_length):
        """The shape of the weights of one step, (B, Tv) or (B, C, Tv)."""
        query_shape, value_shape = (batch, 1, self.query_size), (batch, value_length, self.value_shape[-1])
        shape = self.attention.compute_weights_shape(query_shape, value_shape)
        return (*shape[:-2], shape[-1])

    def prepare(self, value, key=None, mask=None):
        """The memory, in the precision of the attention; see `AttentionLayer.prepare`."""
        dtype = self.attention.compute_dtype
        return self.attention.prepare(ops.cast(value, dtype), None if key is None else ops.cast(key, dtype), mask)

    def initial_state(self, value, key=None, mask=None, states=None, training=None):
        """The states before the first step, with the memory in them: `initial_state` for `keras.layers.RNN`.

        Args:
            value: float (B, Tv, Dv).
            key: float (B, Tv, Dk); defaults to `value`.
            mask: bool (B, Tv), True = keep; default keeps all.
            states: of the inner cell, as its `state_size` or flat, such as those that an encoder returns; default: 0.
            training: bool. Whether the steps to come will be in training: what draws at random there draws its seed
                here. Inside of a Keras model it is known; a loop of your own gives it to both.

        Returns:
            A list for `initial_state`, or for the first step `cell(inputs, states)`. In a functional model a layer of
            its own makes it, which holds the cell as `RNN` does: such a model is saved and loaded whole, but what
            makes each layer from its config, as `clone_model`, would make two cells. `AttentionRNN` is one layer.

        Raises:
            ValueError: a wrong rank, lengths, batches or widths that differ, or `states` that are not the inner cell's.
            TypeError: a mask that is not bool.
        """
        self.build_memory(value.shape, None if key is None else key.shape)
        check_mask("value mask", mask, value.shape[:2])
        if states is not None:
            self.checked_states(states, value.shape[0])
        if self.return_attention_scores and isinstance(value, keras.KerasTensor):
            self.check_fixed_length(value.shape)
        return InitialState(self)(value, key=key, mask=mask, states=states, training=training)

    def start(self, prepared, states=None, training=None) -> CellState:
        """The state before the first step."""
        batch = ops.shape(prepared.value)[0]
        if states is None and hasattr(self.cell, "get_initial_state"):
            states = self.cell.get_initial_state(batch_size=batch)
        elif states is None:
            states = [ops.zeros((batch, size), self.compute_dtype) for size in self.cell_sizes]
        seed = None
        if self.is_random:
            drawn = draw_seed(self.seed_generator) if training in (None, True) else 0
            seed = ops.zeros((batch,), "int32") + drawn
        return CellState(
            output=ops.zeros((batch, self.plain_size), self.narrow_dtype),
            cell=[self.widened(state) for state in self.checked_states(states, prepared.value.shape[0])],
            context=ops.zeros((batch, self.context_size), self.attention.compute_dtype),
            step=ops.zeros((batch,), "int32"),
            seed=seed,
            attention=self.start_attention(prepared, training),
            prepared=prepared,
        )

    def start_attention(self, prepared, training):
        """The state of the attention. One that begins otherwise in training has 0 there without: a loop is for both."""
        if not training and self.start_arguments:
            return keras.tree.map_structure(ops.zeros_like, self.attention_template(prepared))
        return self.attention.initial_state(prepared, **self.start_arguments)

    def attention_template(self, prepared):
        """The shapes and dtypes of the attention's state. What it draws or counts to begin is left as it was."""
        with unmoved(self.attention):
            return self.attention.initial_state(prepared, **self.start_arguments)

    def checked_states(self, states, batch):
        states = keras.tree.flatten(states)
        shapes = [tuple(state.shape) for state in states]
        expected = [(batch, size) for size in self.cell_sizes]
        if len(shapes) != len(expected) or not all(map(may_be, shapes, expected)):
            raise ValueError(
                f"`states` must be those of the inner {type(self.cell).__name__}, {expected}. Received {shapes}. "
                f"Pass the last states of an encoder of the same kind and width, or leave them out."
            )
        return states

    def call(self, inputs, states, training=None):
        """One step: inputs (B, E), states as `initial_state` or the previous step gave them → output, states."""
        state = self.unpack(states)
        output, new = self.step(inputs, state, training, self.return_attention_scores)
        memory = keras.tree.flatten(states)[-3:]  # the very same tensors: a loop then knows that they do not change
        return output, [[*self.pack(new, output), *memory]]

    def step(self, inputs, state: CellState, training, with_weights):
        """`advance` with its random numbers → output, with the weights behind it where wanted, and the new state."""
        inputs = ops.cast(inputs, self.cell.compute_dtype)
        with seeded(self, state.seed if training else None, state.step):
            output, weights, state = self.advance(inputs, state, training)
        state = state._replace(output=output, step=state.step + 1)
        if with_weights:
            weights = ops.reshape(weights, (ops.shape(weights)[0], math.prod(ops.shape(weights)[1:])))
            output = ops.concatenate([self.widened(output), self.widened(weights)], axis=-1)
        return output, state

    def step_cell(self, inputs, state: CellState):
        """Steps the inner cell on the inputs, side by side → its output and its states, flat."""
        inputs = ops.concatenate([ops.cast(one, self.cell.compute_dtype) for one in inputs], axis=-1)
        sizes = self.cell.state_size
        states = keras.tree.pack_sequence_as(sizes if keras.tree.is_nested(sizes) else [sizes], state.cell)
        forget_masks(self.cell)
        output, states = self.cell(inputs, states)  # Keras hands `training` down
        forget_masks(self.cell)
        return output, [self.widened(one) for one in keras.tree.flatten(states)]

    def look(self, query, state: CellState, training):
        """Attends: query (B, Dq) → context (B, Dv), weights, and the state with both remembered."""
        query = ops.cast(query, self.attention.compute_dtype)
        context, weights, attention = self.attention.attend(query, state.prepared, state.attention, training=training)
        return context, weights, state._replace(context=context, attention=attention)

    def widened(self, tensor):
        return ops.cast(tensor, self.compute_dtype)

    def narrowed(self, tensor):
        return ops.cast(tensor, self.narrow_dtype)

    def pack(self, state: CellState, output=None):
        """The float tensors (B, n) of a state but for its memory; `output` is the one with weights, if there are."""
        progress = as_columns(
            [state.step, [] if state.seed is None else [state.seed], state.attention], self.compute_dtype
        )
        output = state.output if output is None else output
        return [self.widened(output), *state.cell, self.widened(state.context), progress]

    def unpack(self, states) -> CellState:
        """Shows what is in the states that `initial_state`, a step, or `RNN(…, return_state=True)` returned."""
        self.check_memory()
        leaves = keras.tree.flatten(states)
        if len(leaves) != len(self.cell_sizes) + 6:
            raise ValueError(
                f"The states must be those of `initial_state` or of the step before, {len(self.cell_sizes) + 6} "
                f"tensors. Received {len(leaves)}. States of an encoder go into `cell.initial_state(value, states=…)`."
            )
        key, value, mask = leaves[-3:]
        batch, length = ops.shape(mask)
        shape, dtype = self.prepared_key
        prepared = PreparedKeys(
            ops.cast(ops.reshape(key, (batch, length, *shape)), dtype),
            ops.cast(ops.reshape(value, (batch, length, self.value_shape[-1])), self.attention.compute_dtype),
            ops.cast(mask, "bool"),
        )
        return self.unpack_without_memory(leaves[:-3], prepared)

    def unpack_without_memory(self, leaves, prepared) -> CellState:
        output, *cell, context, progress = leaves
        count = ops.zeros_like(progress[:, 0], dtype="int32")
        template = [count, [count] if self.is_random else [], self.attention_template(prepared)]
        step, seed, attention = from_columns(template, progress)
        return CellState(
            output=ops.cast(output[:, : self.plain_size], self.narrow_dtype),
            cell=[self.widened(one) for one in cell],
            context=ops.cast(context, self.attention.compute_dtype),
            step=step,
            seed=seed[0] if seed else None,
            attention=attention,
            prepared=prepared,
        )

    def split(self, outputs):
        """Outputs with weights behind them → both apart.

        Args:
            outputs: float (B, O + n) of a step, or (B, Tq, O + n), of a cell with `return_attention_scores=True`.

        Returns:
            outputs (…, O) and weights (B, Tv) or (B, Tq, Tv); with channels (B, C, Tv) or (B, C, Tq, Tv).
        """
        if outputs.shape[-1] == self.plain_size:
            raise ValueError(
                f"There are no weights in the outputs {tuple(outputs.shape)}. "
                f"Make the cell with `return_attention_scores=True`."
            )
        weights = outputs[..., self.plain_size :]
        channels = self.weights_shape(None, None)[1:-1]
        if channels:
            places = weights.shape[-1]
            width = -1 if places is None else places // math.prod(channels)
            weights = ops.reshape(weights, (*ops.shape(weights)[:-1], *channels, width))
            weights = ops.moveaxis(weights, -2, 1)
        return outputs[..., : self.plain_size], weights

    def check_memory(self):
        if self.value_shape is None:
            raise ValueError(
                f"{type(self).__name__} has no values to attend to. Pass "
                f"`initial_state=cell.initial_state(value, mask=value_mask)` to keras.layers.RNN, or use AttentionRNN."
            )

    def check_fixed_length(self, value_shape):
        if value_shape[1] is None or value_shape[1] != self.value_shape[1]:
            raise ValueError(
                f"In a functional model, `return_attention_scores=True` needs one fixed Tv, as the weights are part of "
                f"the output. Received values {tuple(value_shape)}, and the first were {self.value_shape}. "
                f"Give keras.Input a length, or use AttentionRNN."
            )

    def get_initial_state(self, batch_size=None):
        """What `RNN` asks for where it got no `initial_state`, or is stateful: there is none without values."""
        raise ValueError(
            f"{type(self).__name__} cannot start without values, and an RNN over it cannot be stateful. Pass "
            f"`initial_state=cell.initial_state(value, mask=value_mask)` to keras.layers.RNN, or use AttentionRNN."
        )

    def get_build_config(self):
        if self.value_shape is None:
            return None
        return {"value_shape": self.value_shape, "key_shape": self.key_shape, "input_width": self.input_width}

    def build_from_config(self, config):
        self.build_memory(config["value_shape"], config["key_shape"])
        if config["input_width"] is not None:
            self.build((None, config["input_width"]))

    def get_config(self):
        return {
            **super().get_config(),
            "cell": config_of(self.cell),
            "attention": config_of(self.attention),
            "return_attention_scores": self.return_attention_scores,
            "seed": self.seed,
        }
