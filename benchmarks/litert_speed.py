"""LiteRT against `tf.function`: milliseconds a sentence, greedy, batch 1.

    python benchmarks/litert_speed.py --data test.tsv

Both sides translate the same sentences in turn, in float32 and int8, with one thread and two. TensorFlow reads its
number of threads only once, so each number of threads runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def measure(data: Path, threads: int, sentences: int, rounds: int, entry: str):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    from benchmarks.timing import compare
    from keras_attention import export, zoo
    from keras_attention.export.runner import tflite_runner

    model = zoo.load(entry)
    lines = list(dict.fromkeys(line.split("\t")[0] for line in data.read_text("utf-8").splitlines()))
    chosen = lines[:: max(1, len(lines) // sentences)][:sentences]
    sources = [np.array([model.vectorize({"source": text})["source"]], np.int32) for text in chosen]
    graph = model.serving_functions(batch_size=1)["ids"].get_concrete_function()
    tensors = [tf.constant(source) for source in sources]
    print(
        f"{threads} thread(s), {len(sources)} sentences of {np.mean([one.shape[1] for one in sources]):.1f} pieces",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        for quantize in (None, "int8"):
            path = Path(folder, f"{quantize or 'float32'}.tflite")
            report = export.to_tflite(model, path, quantize=quantize)
            run = tflite_runner(path, "ids", threads)
            result = compare(
                lambda run=run: [run(source=source) for source in sources],
                lambda: [graph(source=tensor)["ids"].numpy() for tensor in tensors],
                rounds,
            )
            name = f"{quantize or 'float32':8} {report.size / 2**20:5.1f} MiB"
            print(f"  {name}  LiteRT {result.line(len(sources))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a .tsv file whose first column is English")
    parser.add_argument("--entry", default="nmt_luong")
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads:
        measure(options.data, options.threads, options.sentences, options.rounds, options.entry)
        return
    for threads in (1, 2):
        command = [sys.executable, "-m", "benchmarks.litert_speed", *sys.argv[1:], "--threads", str(threads)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
