import time

import anyio
import pytest

import ordered_queue._events
from ordered_queue._events import AT_ONCE, SECOND_LOOK_SECONDS, Looks, fill_due
from ordered_queue._steps.observe import MOST_PROMOTIONS

BOUND_SECONDS = 30


async def due(looks):
    with anyio.fail_after(BOUND_SECONDS):
        return await looks.due()


@pytest.mark.anyio
async def test_what_is_named_often_is_looked_at_once_now_and_once_later():
    looks = Looks()
    for _ in range(1000):
        looks.name("a", (0.0, SECOND_LOOK_SECONDS))
        looks.name("b", (0.0, SECOND_LOOK_SECONDS))
    named = time.monotonic()

    assert await due(looks) == {"a", "b"}
    later = await due(looks)
    while later != {"a", "b"}:
        later |= await due(looks)
    assert time.monotonic() - named >= SECOND_LOOK_SECONDS - 0.1
    with anyio.move_on_after(2 * SECOND_LOOK_SECONDS) as nothing_more:
        await looks.due()
    assert nothing_more.cancelled_caught


@pytest.mark.anyio
async def test_one_who_waits_is_told_of_what_is_named_meanwhile():
    looks = Looks()
    seen = []

    async def wait():
        seen.append(await due(looks))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        looks.name("a", (0.0,))

    assert seen == [{"a"}]


@pytest.mark.anyio
async def test_a_later_naming_puts_the_look_off():
    """An event a moment before the second look of another: its change may not be committed by then."""
    looks = Looks()
    looks.name("a", (0.2,))
    await anyio.sleep(0.1)
    looks.name("a", (0.2,))
    named = time.monotonic()

    await due(looks)

    assert time.monotonic() - named >= 0.19


@pytest.mark.anyio
async def test_a_queue_in_which_a_fill_was_cut_short_is_filled_again_after_the_others(monkeypatch):
    fills = []
    left = {"long": 2 * MOST_PROMOTIONS + 1, "short": 1}

    async def promote_next(client, key):
        fills.append(key)
        promoted = min(left[key], MOST_PROMOTIONS)
        left[key] -= promoted
        return [None] * promoted

    monkeypatch.setattr(ordered_queue._events, "promote_next", promote_next)
    looks = Looks()
    looks.name("long", AT_ONCE)
    looks.name("short", AT_ONCE)

    with anyio.fail_after(BOUND_SECONDS):
        while any(left.values()):
            async for _ in fill_due(None, looks):
                pass

    assert sorted(fills[:2]) == ["long", "short"]
    assert fills[2:] == ["long", "long"]
