"""The SentencePiece model file, read without trust: what reaches native code is checked here and written anew."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterator

import numpy as np

from keras_attention.text.normalize import DROPPED, SPACES

MAX_BYTES = 16 * 2**20
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3

_MAX_PIECE_BYTES = 256
_MAX_REPLACEMENT_BYTES = 64
_MAX_RULE_BYTES = 31  # SentencePiece keeps at most 32 rules that match at one place
_MAX_SCORE = 1e4
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
UNIGRAM, WORD = 1, 3  # model types
_WRITERS = {UNIGRAM: "SentencePieceTokenizer", WORD: "WordTokenizer"}
_SPECIAL_TYPES = (_CONTROL, _UNKNOWN, _CONTROL, _CONTROL)
_FORBIDDEN = frozenset(map(chr, (0, *SPACES, *DROPPED))) - {"\u2581"} | {" "}

# Fields of TrainerSpec and NormalizerSpec in sentencepiece_model.proto: number -> (name, default, what is supported).
_TRAINER_FIELDS = {
    24: ("treat_whitespace_as_suffix", 0, 0),
    35: ("byte_fallback", 0, 0),
    40: ("unk_id", 0, 1),
    41: ("bos_id", 1, 2),
    42: ("eos_id", 2, 3),
    43: ("pad_id", -1, 0),
}
_NORMALIZER_FIELDS = {
    3: ("add_dummy_prefix", 1, 1),
    4: ("remove_extra_whitespaces", 1, 1),
    5: ("escape_whitespaces", 1, 1),
}


@dataclasses.dataclass(frozen=True)
class SentencePieceModel:
    """All that a unigram or a word model is made of.

    Args:
        pieces: tuple of str. The first four are `SPECIAL_PIECES`; "▁" stands for a space.
        scores: tuple of float. Log probability of each piece.
        charsmap: bytes. Normalisation rules as SentencePiece compiles them.
        model_type: `UNIGRAM` or `WORD`.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    charsmap: bytes
    model_type: int = UNIGRAM


def read_model(data: bytes, source: str, model_type: int = UNIGRAM) -> SentencePieceModel:
    """Reads and checks a serialized `ModelProto`.

    Args:
        data: bytes. The whole file.
        source: str. Its name, for messages.
        model_type: `UNIGRAM` or `WORD`, which it must be.

    Raises:
        ValueError: the data is no SentencePiece model, is damaged, or uses what the three runtimes do not share.
    """
    try:
        return _read(data, model_type)
    except (ValueError, struct.error) as error:
        raise ValueError(
            f"{source} is not a usable SentencePiece model: {error}. Expected a file written by {_WRITERS[model_type]}"
            f".save: copy it again, or train a tokenizer with {_WRITERS[model_type]}.train."
        ) from error


def write_model(model: SentencePieceModel) -> bytes:
    """Serializes a model; equal models give equal bytes on every machine."""
    parts = []
    for index, (piece, score) in enumerate(zip(model.pieces, model.scores, strict=True)):
        kind = _SPECIAL_TYPES[index] if index < len(_SPECIAL_TYPES) else _NORMAL
        entry = _bytes_field(1, piece.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", score) + _int_field(3, kind)
        parts.append(_bytes_field(1, entry))
    trainer = {3: model.model_type, 4: len(model.pieces)} | {
        number: field[2] for number, field in _TRAINER_FIELDS.items()
    }
    parts.append(_bytes_field(2, b"".join(_int_field(*item) for item in sorted(trainer.items()))))
    normalizer = _bytes_field(1, b"user_defined") + _bytes_field(2, model.charsmap)
    normalizer += b"".join(_int_field(number, field[2]) for number, field in _NORMALIZER_FIELDS.items())
    parts.append(_bytes_field(3, normalizer))
    return b"".join(parts)


def _read(data: bytes, model_type: int) -> SentencePieceModel:
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes, the limit is {MAX_BYTES}")
    pieces, scores = [], []
    specs: dict[int, dict] = {}
    for number, value in _fields(data):
        if number == 1:
            piece, score = _read_piece(len(pieces), _message(value, "a piece"))
            pieces.append(piece)
            scores.append(score)
        elif number in specs:
            raise ValueError(f"field {number} occurs twice")
        elif number in (2, 3, 5):
            specs[number] = _message(value, f"field {number}")
    if len(pieces) <= len(SPECIAL_PIECES):
        raise ValueError(f"it has {len(pieces)} pieces, at least {len(SPECIAL_PIECES) + 1} are needed")
    if len(set(pieces)) != len(pieces):
        raise ValueError("a piece occurs twice")
    if 2 not in specs or 3 not in specs:
        raise ValueError("its trainer or normalizer settings are missing")
    _check_settings(specs[2], {3: ("model_type", UNIGRAM, model_type), **_TRAINER_FIELDS})
    _check_settings(specs[3], _NORMALIZER_FIELDS)
    if specs.get(5, {}).get(2):
        raise ValueError("it has denormalization rules, which are not supported")
    charsmap = specs[3].get(2, b"")
    _check_charsmap(charsmap)
    return SentencePieceModel(tuple(pieces), tuple(scores), charsmap, model_type)


def _read_piece(index: int, entry: dict) -> tuple[str, float]:
    text, score, kind = entry.get(1), entry.get(2), entry.get(3, _NORMAL)
    if not isinstance(text, bytes) or not 0 < len(text) <= _MAX_PIECE_BYTES:
        raise ValueError(f"piece {index} has no text of 1 to {_MAX_PIECE_BYTES} bytes")
    piece = text.decode()  # a UnicodeDecodeError is a ValueError
    if not isinstance(score, bytes) or len(score) != 4:
        raise ValueError(f"piece {index} has no score")
    (number,) = struct.unpack("<f", score)
    if not math.isfinite(number) or abs(number) > _MAX_SCORE:
        raise ValueError(f"piece {index} has the score {number}, which is no log probability")
    expected = _SPECIAL_TYPES[index] if index < len(_SPECIAL_TYPES) else _NORMAL
    if kind != expected:
        raise ValueError(f"piece {index} ({piece!r}) has type {kind!r}, expected {expected}")
    if index < len(SPECIAL_PIECES) and piece != SPECIAL_PIECES[index]:
        raise ValueError(f"piece {index} is {piece!r}, expected {SPECIAL_PIECES[index]!r}")
    if not _FORBIDDEN.isdisjoint(piece):
        raise ValueError(f"piece {index} ({piece!r}) holds a space or a control character")
    return piece, number


def _check_settings(spec: dict, fields: dict) -> None:
    for number, (name, default, supported) in fields.items():
        value = spec.get(number, default)
        if value != supported:
            raise ValueError(f"its {name} is {value!r}, only {supported} is supported")


def _check_charsmap(charsmap: object) -> None:
    """Checks that no text leads SentencePiece outside the table: it follows the Darts trie inside without looking."""
    if not isinstance(charsmap, bytes) or len(charsmap) < 4:
        raise ValueError("it has no normalization rules")
    (size,) = struct.unpack("<I", charsmap[:4])
    if size % 1024 or not 1024 <= size < len(charsmap) - 4:  # blocks of 256 units of 4 bytes
        raise ValueError("its normalization rules are damaged")
    units = np.frombuffer(charsmap, "<u4", size // 4, offset=4).astype(np.int64)
    replacements = charsmap[4 + size :]
    starts = {0, *(np.flatnonzero(np.frombuffer(replacements, np.uint8) == 0) + 1).tolist()}
    if replacements[-1] or max(map(len, replacements.decode().split("\0"))) > _MAX_REPLACEMENT_BYTES:
        raise ValueError("its normalization rules are damaged")
    ids = np.arange(len(units))
    nodes = ids[units < 2**31]  # the others are values
    bases = ids ^ ((units >> 10) << ((units & 0x200) >> 6))  # a node's child for byte c stands at its base ^ c
    if np.any((bases[nodes] | 0xFF) >= len(units)):
        raise ValueError("its normalization rules are damaged")
    values = units[bases[nodes[(units[nodes] & 0x100) > 0]]] & 0x7FFFFFFF
    if not starts.issuperset(values.tolist()) or np.any(values >= len(replacements)):
        raise ValueError("its normalization rules are damaged")
    frontier = ids[:1]
    for _ in range(_MAX_RULE_BYTES + 1):
        reached = np.zeros(len(units), bool)
        reached[bases[frontier]] = True
        frontier = nodes[reached[nodes ^ (units[nodes] & 0xFF)]]
    if frontier.size:
        raise ValueError(f"a normalization rule is longer than {_MAX_RULE_BYTES} bytes")


def _message(value: object, name: str) -> dict:
    if not isinstance(value, bytes):
        raise ValueError(f"{name} is not a message")
    return dict(_fields(value))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (number, value) of each field in protobuf's wire format: int for varints, bytes for everything else."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _read_varint(data, position)
        else:
            if wire == 2:
                length, position = _read_varint(data, position)
                if length < 0:
                    raise ValueError(f"it is no protobuf (length {length} at byte {position})")
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise ValueError(f"it is no protobuf (wire type {wire} at byte {position})")
            value, position = data[position : position + length], position + length
        if number <= 0 or position > len(data):
            raise ValueError(f"it is truncated or no protobuf (byte {position} of {len(data)})")
        yield number, value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns (signed 64-bit value, position after it)."""
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            raise ValueError(f"it is truncated at byte {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 2**64 - 1
            return (value - 2**64 if value >= 2**63 else value), position
    raise ValueError(f"it is no protobuf (a number without end at byte {position})")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _int_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value
