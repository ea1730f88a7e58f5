"""GRU and LSTM layers on processors, in fewer and larger operations than Keras's loop over rows takes.

A step of a small recurrent layer is mostly the cost of starting operations, which Keras's loop does many times for each
row of a window, and again on the way back. Here what does not depend on the row before is one product for the whole
window, rows go four in a turn of the loop, and the gradient of the weights is again one product. The formulas are
Keras's own, so the results are the same but for rounding.

Only sums of products in another order: a model stays a model of plain Keras layers, in its file as well.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.verbosity import note

ROWS_AT_ONCE = 4  # rows in one turn of a loop: more make the graph larger, and gain little
# TensorFlow's operation for a whole window of an LSTM starts nothing for a row, but multiplies and adds slowly. So it
# is for small layers and batches; beyond, Keras's loop is quicker (`benchmarks/recurrent.py`).
MOST_UNITS, MOST_NUMBERS = 64, 4096  # of a layer; of its state: windows x units

Gradient = Callable[..., tuple[tf.Tensor, ...]]


@tf.custom_gradient
def gru(
    rows: tf.Tensor, state: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Gradient]:
    """A GRU whose reset gate acts after the product (Cho et al. 2014, as cuDNN and Keras's `reset_after` have it).

        z, r = sigmoid(x Kzr + h Rzr + bzr)    c = tanh(x Kc + bc + r * (h Rc + b'c))    h' = c + z * (h - c)

    Args:
      rows: float32 `[length, batch, features]`; the length is known.
      state: before the first row, `[batch, units]`.
      kernel: of the layer, `[features, 3 * units]`: for the gates z and r, and for the candidate.
      recurrent: the same, `[units, 3 * units]`.
      bias: `[2, 3 * units]`, beside `kernel` and beside `recurrent`.

    Returns:
      The states after each row, `[length, batch, units]`. For the gradient, some eight times as much memory is kept
      until it is known, in evaluation too: less than a step of training takes.
    """
    length, _, features = rows.shape
    units = recurrent.shape[0]
    gates = 2 * units
    by_gates, by_candidate = recurrent[:, :gates], recurrent[:, gates:]
    flat = tf.reshape(rows, [-1, features])

    def project(columns: slice, bias: tf.Tensor) -> tf.Tensor:
        """What the inputs bring to these columns, of all rows at once: `[length, batch, columns]`."""
        product = tf.nn.bias_add(tf.matmul(flat, kernel[:, columns]), bias)
        return tf.reshape(product, [length, -1, product.shape[1]])

    to_gates = project(slice(gates), bias[0, :gates] + bias[1, :gates])
    to_candidate = project(slice(gates, None), bias[0, gates:])
    candidate_bias = bias[1, gates:]

    def forward(row: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        zr = tf.sigmoid(to_gates[row] + tf.matmul(h, by_gates))
        z, r = tf.split(zr, 2, 1)
        state_part = tf.nn.bias_add(tf.matmul(h, by_candidate), candidate_bias)
        c = tf.tanh(to_candidate[row] + r * state_part)
        h = c + z * (h - c)
        return h, (h, zr, state_part, c)

    _, (states, zrs, state_parts, candidates) = _each_row(forward, length, state, (units, gates, units, units))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        before = tf.concat([state[None], states[:-1]], 0)

        def backward(row: tf.Tensor, dh: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
            dh = dh + upstream[row]
            zr, state_part, c = zrs[row], state_parts[row], candidates[row]
            z, r = tf.split(zr, 2, 1)
            passed = dh * z
            dc = tf.raw_ops.TanhGrad(y=c, dy=dh - passed)
            d_state_part = dc * r
            d_zr = tf.raw_ops.SigmoidGrad(y=zr, dy=tf.concat([dh * (before[row] - c), dc * state_part], 1))
            back = tf.matmul(d_zr, by_gates, transpose_b=True) + tf.matmul(d_state_part, by_candidate, transpose_b=True)
            return passed + back, (tf.concat([d_zr, dc], 1), d_state_part)

        d_state, (d_inputs, d_state_part) = _each_row(
            backward, length, tf.zeros_like(state), (3 * units, units), backwards=True
        )
        d_inputs, d_state_part = tf.reshape(d_inputs, [-1, 3 * units]), tf.reshape(d_state_part, [-1, units])
        d_gates = d_inputs[:, :gates]
        before = tf.reshape(before, [-1, units])
        d_recurrent = [tf.matmul(before, part, transpose_a=True) for part in (d_gates, d_state_part)]
        d_bias = tf.reduce_sum(d_inputs, 0)
        return (
            tf.reshape(tf.matmul(d_inputs, kernel, transpose_b=True), tf.shape(rows)),
            d_state,
            tf.matmul(flat, d_inputs, transpose_a=True),
            tf.concat(d_recurrent, 1),
            tf.stack([d_bias, tf.concat([d_bias[:gates], tf.reduce_sum(d_state_part, 0)], 0)]),
        )

    return states, gradient


@tf.custom_gradient
def lstm(
    rows: tf.Tensor, state: tf.Tensor, carry: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor
) -> tuple[tuple[tf.Tensor, tf.Tensor], Gradient]:
    """An LSTM (Hochreiter and Schmidhuber 1997, with forget gates) by TensorFlow's operation for a whole window.

    Args:
      rows: float32 `[length, batch, features]`.
      state: before the first row, `[batch, units]`.
      carry: the same.
      kernel: of the layer, `[features, 4 * units]`.
      recurrent: the same, `[units, 4 * units]`.
      bias: `[4 * units]`.

    Returns:
      The states and the carries after each row, each `[length, batch, units]`.
    """
    features, units = rows.shape[2], recurrent.shape[0]
    unused = tf.zeros([units])  # weights from the carry to the gates, which Keras's layer has none of
    arguments = {
        "seq_len_max": tf.shape(rows, out_type=tf.int64)[0],
        "x": rows, "cs_prev": carry, "h_prev": state, "w": tf.concat([kernel, recurrent], 0), "b": bias,
        "wci": unused, "wcf": unused, "wco": unused, "use_peephole": False,
    }  # fmt: skip
    i, cs, f, o, ci, co, h = tf.raw_ops.BlockLSTMV2(**arguments, cell_clip=0.0)

    # Said here, as TensorFlow gives this operation the gradient of its first version, whose gates stand otherwise.
    def gradient(d_states: tf.Tensor, d_carries: tf.Tensor) -> tuple[tf.Tensor, ...]:
        d_rows, d_carry, d_state, d_weights, *_, d_bias = tf.raw_ops.BlockLSTMGradV2(
            **arguments, i=i, cs=cs, f=f, o=o, ci=ci, co=co, h=h, cs_grad=d_carries, h_grad=d_states
        )
        return (d_rows, d_state, d_carry, *tf.split(d_weights, [features, units]), d_bias)

    return (h, cs), gradient


def _each_row(
    step: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tuple[tf.Tensor, ...]]],
    length: int,
    state: tf.Tensor,
    widths: Sequence[int],
    backwards: bool = False,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs step(row, state) -> (state, kept) for each row; the last state, and what was kept: `[length, batch, width]`.

    Args:
      step: gets the number of the row and the state, `[batch, units]`.
      length: of the window, in rows.
      state: before the first row.
      widths: of what a step gives to be kept, each `[batch, width]`.
      backwards: begins at the last row.
    """
    arrays = [tf.TensorArray(tf.float32, length, element_shape=[None, width]) for width in widths]
    turns, rest = divmod(length, ROWS_AT_ONCE)

    def turn(row: tf.Tensor, state: tf.Tensor, *arrays: tf.TensorArray, rows: int = ROWS_AT_ONCE) -> tuple[Any, ...]:
        for _ in range(rows):
            place = length - 1 - row if backwards else row
            state, values = step(place, state)
            arrays = tuple(array.write(place, value) for array, value in zip(arrays, values, strict=True))
            row = row + 1
        return (row, state, *arrays)

    reached = tf.while_loop(
        lambda row, *_: row < turns * ROWS_AT_ONCE, turn, (tf.constant(0), state, *arrays), parallel_iterations=1
    )
    _, state, *arrays = turn(*reached, rows=rest)
    return state, [array.stack() for array in arrays]


def quicken(model: keras.Model) -> None:
    """Lets the GRU and LSTM layers of a built model compute by the functions above, where these can.

    They can where there is no GPU, which has kernels of its own, and the layer has Keras's own activations, float32,
    no dropout of its own and no mask. Others, and windows of unknown length, are left to Keras. Layers that are left to
    it whatever they get are named in one line, as they take several times as long.
    """
    if tf.config.list_logical_devices("GPU"):
        return
    slow = []
    for layer in model._flatten_layers():
        if type(layer) in (keras.layers.GRU, keras.layers.LSTM):
            if _is_plain(layer):
                layer.inner_loop = _inner_loop(layer)
            else:
                slow.append(layer.name)
    if slow:
        note(
            f"train.model: {', '.join(slow)} computed row by row, which is slow on a CPU; fast are layers in float32 "
            "(train.devices.precision), with Keras's own activations and no dropout"
        )


@contextmanager
def portable(model: keras.Model) -> Iterator[None]:
    """What is traced inside runs on any machine: GRU and LSTM layers do not take cuDNN's kernels, which need a GPU."""
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.GRU | keras.layers.LSTM)]
    before = [layer.use_cudnn for layer in layers]
    for layer in layers:
        layer.use_cudnn = False
    try:
        yield
    finally:
        for layer, used in zip(layers, before, strict=True):
            layer.use_cudnn = used


def _is_plain(layer: Any) -> bool:
    cell = layer.cell
    return (
        cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
        and cell.use_bias
        and getattr(cell, "reset_after", True)
        and not (cell.dropout or cell.recurrent_dropout or layer.unroll)
        and layer.compute_dtype == layer.variable_dtype == "float32"
    )


def _inner_loop(layer: Any) -> Callable[..., Any]:
    """What Keras calls for the rows of a layer; see `keras.layers.RNN.inner_loop`."""
    run, keras_loop = (_run_lstm if isinstance(layer, keras.layers.LSTM) else _run_gru), layer.inner_loop

    def inner_loop(sequences: tf.Tensor, initial_state: Any, mask: Any = None, training: bool = False) -> Any:
        computed = None
        if mask is None and sequences.shape[1]:
            ordered = tf.reverse(sequences, [1]) if layer.go_backwards else sequences
            computed = run(layer.cell, tf.transpose(ordered, [1, 0, 2]), *initial_state)
        if computed is None:
            return keras_loop(sequences, initial_state, mask=mask, training=training)
        outputs, states = computed
        outputs = tf.transpose(outputs, [1, 0, 2]) if layer.return_sequences else states[0][:, None]
        return states[0], outputs, states

    return inner_loop


def _run_gru(cell: Any, rows: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
    states = gru(rows, state, *_weights(cell))
    return states, [states[-1]]


def _run_lstm(
    cell: Any, rows: tf.Tensor, state: tf.Tensor, carry: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]] | None:
    """None where Keras's loop is quicker, or it is not known to be slower."""
    batch = rows.shape[1]
    if batch is None or cell.units > MOST_UNITS or batch * cell.units > MOST_NUMBERS:
        return None
    states, carries = lstm(rows, state, carry, *_weights(cell))
    return states, [states[-1], carries[-1]]


def _weights(cell: Any) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(weight) for weight in (cell.kernel, cell.recurrent_kernel, cell.bias)]
