"""How much of each ordered shard is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from synthbench.recorded import Recorded, read_recorded
from synthbench.run.orders import ordered_shards, read_order


class ShardStatus(NamedTuple):
    """A shard of the last orders of a run."""

    shard: str
    done: int  # cells and rounds of the order
    total: int
    seconds_left: float | None  # to measure the rest, as long as what is measured took


def status_of(run_dir: Path) -> list[ShardStatus]:
    """Every shard for which there is an order; raises ResultsError where one cannot be read."""
    records = read_recorded(run_dir)
    mean = _mean_seconds(records)
    by_place: dict[tuple[str, int], list[Recorded]] = {}
    for record in records:
        by_place.setdefault((record.id, record.round), []).append(record)
    found = []
    for name in ordered_shards(run_dir):
        places = read_order(run_dir, name).places
        measured = [record for place in places for record in by_place.get(place, ())]
        done = len({(r.id, r.round) for r in measured if r.attempt >= places[r.id, r.round]})
        own = _mean_seconds(measured) or mean
        left = None if own is None or done == len(places) else own * (len(places) - done)
        found.append(ShardStatus(name, done, len(places), left))
    return found


def _mean_seconds(records: Sequence[Recorded]) -> float | None:
    if not records:
        return None
    return sum(record.wall_seconds for record in records) / len(records)
