"""What a smaller file costs: BLEU of the float32, float16 and int8 TFLite files, run by LiteRT, and of the model
itself.

python benchmarks/tflite_bleu.py --data test.tsv --sentences 500
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_attention import export, zoo
from keras_attention.export.runner import tflite_runner
from keras_attention.training.metrics import corpus_scores, group_references
from keras_attention.training.readers import read_examples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--entry", default="nmt_luong")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--beam", type=int, default=1)
    options = parser.parse_args()
    model = zoo.load(options.entry)
    sources, references = group_references(read_examples([options.data], columns=("source", "target")))
    sources, references = sources[: options.sentences], references[: options.sentences]
    outputs = [one.output for one in model.translate(sources, beam_size=options.beam, attention=False)]
    scores = corpus_scores("translation", outputs, references)
    print(f"{len(sources)} sentences, beam {options.beam}, {scores['bleu_signature']}")
    print(f"model            {scores['bleu']:.2f} BLEU", flush=True)
    ids = [np.array([model.vectorize({"source": text})["source"]], np.int32) for text in sources]
    with tempfile.TemporaryDirectory() as folder:
        for quantize in (None, "float16", "int8"):
            path = Path(folder, f"{quantize or 'float32'}.tflite")
            report = export.to_tflite(model, path, quantize=quantize, beam_size=options.beam)
            run = tflite_runner(path, "ids", 2)
            found = [run(source=source)["ids"][0, 0].tolist() for source in ids]
            texts = [model.tokenizer.decode(one) for one in found]
            same = np.mean([one == other for one, other in zip(texts, outputs, strict=True)])
            bleu = corpus_scores("translation", texts, references)["bleu"]
            name = f"{quantize or 'float32':8} {report.size / 2**20:5.1f} MiB"
            print(f"{name}  {bleu:.2f} BLEU, {100 * same:.1f} % of the outputs the same", flush=True)


if __name__ == "__main__":
    main()
