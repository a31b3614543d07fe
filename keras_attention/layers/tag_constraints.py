"""`tag_constraints`: which tags may follow which, by their names."""

from __future__ import annotations

__all__ = ["SCHEMES", "split_tag", "tag_constraints"]

# Of each scheme: prefixes that may begin a span, those that continue one, and those that may end one.
SCHEMES = {"BIO": ("B", "I", "BI"), "IOB1": ("BI", "I", "BI"), "IOBES": ("BS", "IE", "ES")}


def tag_constraints(tags, scheme="BIO"):
    """What `ConditionalRandomField` may choose so that its tags are spans.

    "BIO": a span of type X is B-X I-X …; "IOB1": it is I-X …, and B-X only right behind another X; "IOBES": S-X is a
    span of one word, B-X I-X … E-X a longer one. "O" is outside of all.

    Args:
        tags: list of str, the names of the tags in the order of their ids: "O", or a prefix of the scheme, "-", a type.
        scheme: "BIO", "IOB1" or "IOBES".

    Returns:
        dict of `allowed_transitions`, `allowed_start`, `allowed_end`: arguments of the layer.

    Raises:
        ValueError: an unknown scheme, a tag that comes twice, or one that is not of the scheme.

    Example:
    >>> tag_constraints(["O", "B-PER", "I-PER"])["allowed_start"]
    [True, True, False]
    """
    if scheme not in SCHEMES:
        raise ValueError(f"Unknown scheme {scheme!r}. Expected one of {', '.join(SCHEMES)}.")
    if len(set(tags)) != len(tags):
        twice = next(tag for place, tag in enumerate(tags) if tag in tags[:place])
        raise ValueError(f"The tag {twice!r} comes twice. Expected each once, in the order of their ids.")
    parts = [split_tag(tag, scheme) for tag in tags]
    outside = ("O", "")
    return {
        "allowed_transitions": [[_may_follow(one, two, scheme) for two in parts] for one in parts],
        "allowed_start": [_may_follow(outside, one, scheme) for one in parts],
        "allowed_end": [_may_follow(one, outside, scheme) for one in parts],
    }


def split_tag(tag, scheme):
    """A tag → its prefix and the type of its span, ("O", "") outside; an error names what is not of the scheme."""
    if tag == "O":
        return "O", ""
    prefix, dash, kind = tag.partition("-")
    prefixes = "".join(sorted(set("".join(SCHEMES[scheme]))))
    if not dash or not kind or len(prefix) != 1 or prefix not in prefixes:
        raise ValueError(
            f"{tag!r} is no tag of the scheme {scheme}. Expected 'O', or one of {', '.join(prefixes)} before '-' and a "
            f"type, such as {prefixes[0]}-PER. Rename the tag, or name the scheme that it is of."
        )
    return prefix, kind


def _may_follow(one, two, scheme):
    """Whether tag `two` may stand behind tag `one`."""
    begins, continues, ends = SCHEMES[scheme]
    if one[0] != "O" and one[1] == two[1] and two[0] in continues and one[0] not in ("E", "S"):
        return True  # the span goes on
    if one[0] != "O" and one[0] not in ends:
        return False  # the span is not over
    if scheme == "IOB1" and two[0] == "B":
        return one[0] != "O" and one[1] == two[1]  # only between two spans of one type
    return two[0] == "O" or two[0] in begins
