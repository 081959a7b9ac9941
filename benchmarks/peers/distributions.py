"""How YCSB chooses keys: its scrambled zipfian distribution, and the one that prefers the latest."""

from __future__ import annotations

from random import Random

ZIPFIAN_CONSTANT = 0.99
FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 1099511628211
ALL_BITS = (1 << 64) - 1


def fnv_hash(number: int) -> int:
    """The 64-bit FNV-1 hash with which YCSB spreads the popular ranks over all keys."""
    result = FNV_OFFSET
    for _ in range(8):
        result = ((result ^ (number & 0xFF)) * FNV_PRIME) & ALL_BITS
        number >>= 8
    return result


class Zipfian:
    """Ranks from 0 to `items` - 1: rank r is drawn about 1 / (r + 1) ** 0.99 as often as rank 0. The method is Gray's."""

    def __init__(self, items: int) -> None:
        if items < 1:
            raise ValueError(f"{items} items: a distribution needs one at least")
        self._items = items
        self._zeta = sum(1 / (rank + 1) ** ZIPFIAN_CONSTANT for rank in range(items))
        self._alpha = 1 / (1 - ZIPFIAN_CONSTANT)
        two = 1 + 0.5**ZIPFIAN_CONSTANT
        ratio = two / self._zeta
        self._eta = (1 - (2 / items) ** (1 - ZIPFIAN_CONSTANT)) / (1 - ratio) if ratio < 1 else 0.0

    def rank(self, chance: Random) -> int:
        """The next rank."""
        drawn = chance.random()
        scaled = drawn * self._zeta
        if scaled < 1:
            return 0
        if scaled < 1 + 0.5**ZIPFIAN_CONSTANT:
            return min(1, self._items - 1)
        rank = int(self._items * (self._eta * drawn - self._eta + 1) ** self._alpha)
        return min(rank, self._items - 1)

    def scrambled(self, chance: Random) -> int:
        """The next key: popular ones lie anywhere among all keys."""
        return fnv_hash(self.rank(chance)) % self._items

    def latest(self, newest: int, chance: Random) -> int:
        """The next key, where key `newest` is the most popular, and each older one less."""
        return max(0, newest - self.rank(chance))
