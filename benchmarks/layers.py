"""The attention layers against what a user would pick instead: milliseconds, forward and forward + backward.

    python -m benchmarks.layers                        all tables
    python -m benchmarks.layers --table additive       one of them: additive, local, dot, multi_head, steps
    python -m benchmarks.layers --growth docs/images/layers_growth.png

Both sides run in one process, in turn: the median of 20 rounds after 2 of warming up, their ratio, and its quartiles.
A ratio over 1 means that ours is faster. Each line runs in a process of its own; `memory` is the high-water mark of a
further process that runs one side alone, less what it held before. TensorFlow sides are `tf.function`s (`jit` where XLA
compiles them), PyTorch sides are written by hand as a reader of the paper would, eager.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.timing import compare, median_seconds

ROOT = Path(__file__).resolve().parents[1]
BATCH, WIDTH, HEADS, RADIUS = 32, 256, 8, 10
GROWTH_BATCH = 1
GROWTH = (
    "BahdanauAttention",
    "LuongAttention dot",
    "LocalAttention",
    "MultiHeadAttention",
    "keras AdditiveAttention",
    "keras Attention",
    "keras MultiHeadAttention",
)
GROWTH_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclasses.dataclass(frozen=True)
class Line:
    """One comparison.

    Attributes:
        ours, theirs: names in `SIDES`; `theirs` is empty where nothing else can run.
        batch, queries, keys: B, Tq, Tv.
        rounds: how often both sides run.
        memory: whether to measure it.
    """

    ours: str
    theirs: str
    batch: int = BATCH
    queries: int = 64
    keys: int = 64
    rounds: int = 20
    memory: bool = False


TABLES = {
    "additive": [
        Line("BahdanauAttention", "keras AdditiveAttention", memory=True),
        Line("BahdanauAttention", "torch additive"),
        Line("BahdanauAttention", "keras AdditiveAttention jit", queries=256, keys=256, memory=True),
        Line("BahdanauAttention jit", "keras AdditiveAttention jit", queries=256, keys=256),
        Line("BahdanauAttention", "torch additive", queries=256, keys=256, rounds=5),
        Line("BahdanauAttention", "", queries=1024, keys=1024, rounds=5, memory=True),
    ],
    "local": [
        Line("LocalAttention", "LuongAttention general", batch=8, keys=4096, memory=True),
        Line("LocalAttention jit", "LuongAttention general jit", batch=8, keys=4096),
        Line("LocalAttention", "torch local", batch=8, keys=4096),
        Line("LocalAttention", "", batch=8, keys=256),
        Line("LocalAttention", "", batch=8, keys=1024),
        Line("LocalAttention", "", batch=8, keys=4096),
    ],
    "dot": [
        Line("LuongAttention dot", "keras Attention"),
        Line("LuongAttention dot", "keras Attention", queries=512, keys=512),
        Line("LuongAttention dot", "torch dot"),
        Line("LuongAttention dot", "torch dot", queries=512, keys=512),
    ],
    "multi_head": [
        Line("MultiHeadAttention", "keras MultiHeadAttention"),
        Line("MultiHeadAttention", "keras MultiHeadAttention", queries=512, keys=512),
        Line("MultiHeadAttention", "torch multi-head"),
        Line("MultiHeadAttention", "torch multi-head", queries=512, keys=512),
    ],
    "steps": [
        Line("BahdanauAttention step", "keras AdditiveAttention step", queries=1, keys=64),
        Line("LuongAttention general step", "keras Attention step", queries=1, keys=64),
    ],
}


def keras_layer(name):
    """The layer of a TensorFlow side, from its name without "jit" and "step"."""
    import keras

    from keras_attention import layers

    makers = {
        "BahdanauAttention": lambda: layers.BahdanauAttention(units=WIDTH),
        "keras AdditiveAttention": keras.layers.AdditiveAttention,
        "LocalAttention": lambda: layers.LocalAttention(radius=RADIUS, score="general"),
        "LuongAttention general": lambda: layers.LuongAttention("general"),
        "LuongAttention dot": lambda: layers.LuongAttention("dot"),
        "keras Attention": keras.layers.Attention,
        "MultiHeadAttention": lambda: layers.MultiHeadAttention(HEADS, WIDTH // HEADS),
        "keras MultiHeadAttention": lambda: keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS),
    }
    return makers[name]()


def tensorflow_side(name, line, backward):
    """A function without arguments that runs this side once."""
    import tensorflow as tf

    jit, step = name.endswith(" jit"), name.endswith(" step")
    layer = keras_layer(name.removesuffix(" jit").removesuffix(" step"))
    query, value = (
        tf.random.normal((line.batch, length, WIDTH), seed=seed)
        for seed, length in enumerate((line.queries, line.keys))
    )

    def call(query, value):
        return layer(query, value) if "MultiHead" in name else layer([query, value])

    if step and "keras" not in name:
        call(query, value)
        prepared = layer.prepare(value)

        @tf.function(jit_compile=jit)
        def attend(query):
            return layer.attend(query[:, 0], prepared, layer.initial_state(prepared))[0]

        return lambda: attend(query)
    call(query, value)  # builds it

    @tf.function(jit_compile=jit)
    def forward(query, value):
        return call(query, value)

    @tf.function(jit_compile=jit)
    def both(query, value):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            loss = tf.reduce_sum(tf.square(call(query, value)))
        return tape.gradient(loss, [query, value, *(weight.value for weight in layer.trainable_weights)])

    return (lambda: both(query, value)) if backward else (lambda: forward(query, value))


def torch_side(name, line, backward):
    """The same, written by hand in PyTorch."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    torch.manual_seed(0)
    query, value = (torch.randn(line.batch, length, WIDTH) for length in (line.queries, line.keys))
    first, second, third = (torch.randn(WIDTH, WIDTH) / 16 for _ in range(3))
    scale = torch.randn(WIDTH) / 16

    def additive():
        hidden = torch.tanh((query @ first)[:, :, None] + (value @ second)[:, None])
        return torch.softmax(hidden @ scale, -1) @ value

    def dot():
        return torch.softmax(query @ value.transpose(1, 2), -1) @ value

    def multi_head():
        heads = (query @ first, value @ second, value @ third)
        heads = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in heads)
        return torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2) @ first

    def local():
        centre = line.keys * torch.sigmoid(torch.tanh(query @ first) @ scale)[..., None]  # (B, Tq, 1)
        places = torch.ceil(centre.detach() - RADIUS).long() + torch.arange(2 * RADIUS + 1)
        inside = (places >= 0) & (places < line.keys) & ((places - centre).abs() <= RADIUS)
        rows = torch.arange(line.batch)[:, None, None]
        window = value[rows, places.clamp(0, line.keys - 1)]  # (B, Tq, W, D)
        score = torch.einsum("bqd,bqwd->bqw", query @ second, window).masked_fill(~inside, -torch.inf)
        weights = torch.softmax(score, -1) * torch.exp(-((places - centre) ** 2) / (2 * (RADIUS / 2) ** 2))
        return torch.einsum("bqw,bqwd->bqd", weights, window)

    call = {"torch additive": additive, "torch dot": dot, "torch multi-head": multi_head, "torch local": local}[name]
    trained = [query, value, first, second, third, scale]

    def forward():
        with torch.no_grad():
            call()

    def both():
        for tensor in trained:
            tensor.requires_grad_().grad = None
        call().square().sum().backward()

    return both if backward else forward


def side(name, line, backward) -> Callable[[], object]:
    return torch_side(name, line, backward) if name.startswith("torch") else tensorflow_side(name, line, backward)


def run_line(line, backward):
    ours = side(line.ours, line, backward)
    if line.theirs:
        return compare(ours, side(line.theirs, line, backward), line.rounds).line()
    return f"{1000 * median_seconds(ours, line.rounds):8.2f} ms"


def memory_of(name, line, backward):
    """MB by which running this side once raises the high-water mark of this process."""
    small = dataclasses.replace(line, batch=1, queries=2, keys=2)
    side(name, small, backward)()  # what the framework needs for anything at all
    call = side(name, line, backward)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def grown(name, backward=True):
    """Milliseconds of one side at each length, until a call would take more than a minute or 8 GiB."""
    found = {}
    for length in GROWTH_LENGTHS:
        line = Line(name, "", GROWTH_BATCH, length, length)
        if name == "keras AdditiveAttention" and 4 * GROWTH_BATCH * length**2 * WIDTH * 4 > 8 * 2**30:
            break
        call = side(name, line, backward)
        call()
        found[length] = 1000 * median_seconds(call, 5)
    return found


def in_process(*arguments):
    """What this script prints with these arguments, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.layers", *map(str, arguments)]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"failed: {done.stderr.strip().splitlines()[-1]}"


def print_table(name):
    for number, line in enumerate(TABLES[name]):
        print(f"{line.ours} | {line.theirs or 'alone'}   B {line.batch}, Tq {line.queries}, Tv {line.keys}, D {WIDTH}")
        for backward in (False,) if "step" in line.ours else (False, True):
            kind = "forward + backward" if backward else "forward"
            print(f"  {kind:18} {in_process('--line', name, number, int(backward))}", flush=True)
        for one in filter(None, (line.ours, line.theirs) if line.memory else ()):
            taken = in_process("--memory", name, number, one)
            print(f"  memory, forward + backward, {one}: {taken} MB", flush=True)


def draw_growth(path):
    """Growth curves, as a picture."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name in GROWTH:
        found = {int(length): value for length, value in json.loads(in_process("--grow", name)).items()}
        print(f"{name:26}", "  ".join(f"{length}: {value:.1f}" for length, value in found.items()), flush=True)
        style = "--" if name.startswith("keras") else "-"
        axes.plot(list(found), list(found.values()), style, marker="o", markersize=4, label=name)
    axes.set(xscale="log", yscale="log", xlabel="Tq = Tv", ylabel="forward + backward, ms")
    axes.set_xticks(GROWTH_LENGTHS, [str(length) for length in GROWTH_LENGTHS])
    axes.minorticks_off()
    axes.set_title(f"B {GROWTH_BATCH}, D {WIDTH}, float32, {os.cpu_count()} cores")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--growth", metavar="PICTURE")
    parser.add_argument("--line", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--grow", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.line:
        table, number, backward = options.line
        print(run_line(TABLES[table][int(number)], bool(int(backward))))
    elif options.memory:
        table, number, name = options.memory
        print(f"{memory_of(name, TABLES[table][int(number)], True):.0f}")
    elif options.grow:
        print(json.dumps(grown(options.grow)))
    elif options.growth:
        draw_growth(options.growth)
    else:
        for name in options.table or TABLES:
            print(f"== {name}")
            print_table(name)


if __name__ == "__main__":
    main()
