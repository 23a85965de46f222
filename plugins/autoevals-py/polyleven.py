"""Replaces the compiled package polyleven: the edit distance of two texts.

Hyyrö's bit-parallel form of Myers' algorithm. Python's integers have as many bits as one text has characters, so
each character of the other costs a handful of operations on long integers.
"""


def levenshtein(one: str, other: str, limit: int = -1) -> int:
    """The number of insertions, deletions and substitutions from `one` to `other`; beyond the limit, the limit plus 1."""
    if len(one) < len(other):
        one, other = other, one
    distance = _distance(one, other)
    return limit + 1 if 0 <= limit < distance else distance


def _distance(pattern: str, text: str) -> int:
    if pattern == text:
        return 0
    if not text:
        return len(pattern)
    places: dict[str, int] = {}
    for index, character in enumerate(pattern):
        places[character] = places.get(character, 0) | 1 << index
    last, ones = 1 << (len(pattern) - 1), (1 << len(pattern)) - 1
    up, down, distance = ones, 0, len(pattern)
    for character in text:
        match = places.get(character, 0)
        diagonal = (((match & up) + up) ^ up) | match | down
        right, left = down | ~(diagonal | up), up & diagonal
        if right & last:
            distance += 1
        elif left & last:
            distance -= 1
        right, left = right << 1 | 1, left << 1
        up, down = (left | ~(diagonal | right)) & ones, right & diagonal & ones
    return distance
