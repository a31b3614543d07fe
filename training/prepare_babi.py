"""Takes a tenth of the training questions of each bAbI task for validation, for the recipe `qa_memn2n`.

    python training/prepare_babi.py --tasks en --out DIR

Reads qa1_…_train.txt to qa20_…_train.txt (or .gz) and writes them into DIR/train and DIR/valid, whole stories each. A
story goes to DIR/train where validation has enough, or where only it has some answer.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from keras_attention.training.readers import read_lines

SEED = 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True, help="folder of the qa…_train.txt or .txt.gz files")
    parser.add_argument("--out", type=Path, required=True, help="folder for train/ and valid/")
    parser.add_argument("--share", type=float, default=0.1, help="share of the questions in valid/ (%(default)s)")
    options = parser.parse_args(arguments)
    files = sorted(options.tasks.glob("qa*_train.txt*"))
    if not files:
        print(f"error: {options.tasks} has no file qa*_train.txt. Give the folder of the tasks.", file=sys.stderr)
        return 1
    if not 0 < options.share < 1:
        print(f"error: --share must lie between 0 and 1, not {options.share}", file=sys.stderr)
        return 1
    try:
        prepare(files, options.out, options.share)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def prepare(files: list[Path], out: Path, share: float) -> None:
    """Splits the stories of each file."""
    stories = {file: stories_of(file) for file in files}
    left = Counter(answer for each in stories.values() for story in each for answer in set(answers(story)))
    for file, each in stories.items():
        train, valid = split(each, share, left)
        name = file.name.removesuffix(".gz")
        for part, chosen in (("train", train), ("valid", valid)):
            folder = out / part
            folder.mkdir(parents=True, exist_ok=True)
            text = "".join(f"{line}\n" for story in chosen for line in story)
            (folder / name).write_text(text, "utf-8", newline="\n")
        print(f"{name}: {sum(map(questions, train))} and {sum(map(questions, valid))} questions")


def stories_of(file: Path) -> list[list[str]]:
    """The lines of each story: the numbers start again at 1."""
    stories: list[list[str]] = []
    for line in read_lines(file):
        if line.startswith("1 "):
            stories.append([])
        if line.strip():
            stories[-1].append(line)
    return stories


def answers(story: list[str]) -> list[str]:
    return [line.split("\t")[1].strip() for line in story if "\t" in line]


def questions(story: list[str]) -> int:
    return len(answers(story))


def split(stories: list[list[str]], share: float, left: Counter) -> tuple[list, list]:
    """(training, validation), each in the order of the file. `left` counts in how many training stories an answer is,
    over all tasks.
    """
    wanted = share * sum(map(questions, stories))
    chosen: set[int] = set()
    for place in random.Random(SEED).sample(range(len(stories)), len(stories)):
        story = stories[place]
        if wanted > 0 and all(left[answer] > 1 for answer in answers(story)):
            chosen.add(place)
            wanted -= questions(story)
            left.subtract(set(answers(story)))
    train = [story for place, story in enumerate(stories) if place not in chosen]
    return train, [stories[place] for place in sorted(chosen)]


if __name__ == "__main__":
    sys.exit(main())
