"""A worker's cache of deletes: bounded by bytes, the least recently used value goes first."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from twostage.deletes.cache.memory import ByteCache

STEPS = st.lists(
    st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 60))
    | st.tuples(st.just("get"), st.integers(0, 5), st.just(0))
    | st.tuples(st.just("drop"), st.integers(0, 5), st.just(0))
    | st.tuples(st.just("room"), st.integers(0, 5), st.integers(0, 100)),
    max_size=40,
)
LIMIT = 100


@settings(deadline=None)
@given(STEPS)
def test_what_is_kept(steps: list[tuple[str, int, int]]) -> None:
    """Against a list of (key, size), the one used last at its end."""
    cache, kept = ByteCache(), [(9, 0)]
    cache.put(9, "nothing", 0, limit=LIMIT)

    def make_room(limit: int, spared: int | None = None) -> None:
        while sum(size for _, size in kept) > limit:
            oldest = next((one for one in kept if one[0] != spared), None)
            if oldest is None:
                return
            kept.remove(oldest)

    for action, key, size in steps:
        mine = next((one for one in kept if one[0] == key), None)
        if action == "get":
            assert cache.get(key) == (None if mine is None else f"value {mine[1]}")
            if mine is not None:
                kept.append(kept.pop(kept.index(mine)))
        elif action == "drop":
            cache.drop(key)
            kept = [one for one in kept if one[0] != key]
        elif action == "room":
            cache.make_room(size, keep=(key,))
            make_room(size, spared=key)
        else:
            cache.put(key, f"value {size}", size, limit=LIMIT)
            kept = [one for one in kept if one[0] != key]
            make_room(LIMIT - size)
            kept += [(key, size)]
        assert cache.nbytes == sum(size for _, size in kept) <= LIMIT
    for key in range(6):
        assert (cache.get(key) is not None) == any(one[0] == key for one in kept)
    cache.clear()
    assert (cache.nbytes, cache.get(9)) == (0, None)


def test_what_is_larger_than_the_limit_is_not_kept() -> None:
    cache = ByteCache()
    cache.put("a", "small", 10, limit=LIMIT)
    cache.put("a", "large", LIMIT + 1, limit=LIMIT)
    assert (cache.get("a"), cache.nbytes) == (None, 0)
