"""How many units to draw from each stratum: sizes N_h in, sample sizes n_h out, 0 <= n_h <= N_h.

Every function returns whole numbers in the order of its input and raises AllocationError for a plan that cannot be met.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

Method = Literal["census", "proportional", "equal", "fixed", "neyman"]
METHODS: tuple[Method, ...] = ("census", "proportional", "equal", "fixed", "neyman")
Json = Any


class AllocationError(ValueError):
    """A plan that cannot be met; the message says by how much and what to change."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for. `size` is the total n, but n_h of every stratum for "fixed"; a census takes all.

    `sizes` gives n_h stratum by stratum ("fixed"); `rates` the expected share of each stratum ("neyman"), where `floor`
    and `cap` bound n_h.
    """

    method: Method
    size: int | None = None
    sizes: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    floor: int = 2
    cap: int | None = None

    def to_json(self) -> Json:
        """The form stored with a sample: only what the method uses."""
        used = {"method": self.method, "size": self.size, "sizes": list(self.sizes), "rates": list(self.rates)}
        if self.method == "neyman":
            used |= {"floor": self.floor, "cap": self.cap}
        return {key: value for key, value in used.items() if value not in (None, [])}

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Inverse of `to_json`."""
        return cls(**{**data, "sizes": tuple(data.get("sizes", ())), "rates": tuple(data.get("rates", ()))})


def allocate(plan: Plan, population: Sequence[int]) -> tuple[int, ...]:
    """The n_h of a plan over strata of the sizes `population`."""
    if plan.method == "census":
        return tuple(population)
    if plan.method == "fixed" and plan.sizes:
        return fixed(population, plan.sizes)
    if plan.size is None:
        raise AllocationError(f"a {plan.method} plan needs a size")
    if plan.method == "fixed":
        return fixed(population, [min(plan.size, size) for size in population])
    if plan.method == "equal":
        return equal(population, plan.size)
    if plan.method == "neyman":
        return neyman(population, plan.rates, plan.size, floor=plan.floor, cap=plan.cap)
    return proportional(population, plan.size)


def proportional(population: Sequence[int], n: int) -> tuple[int, ...]:
    """n_h proportional to N_h, rounded by largest remainder; equal remainders go to the earlier stratum.

    No n_h passes N_h: a quota n N_h / N is at most N_h, and is rounded up by less than one.
    """
    total = _check_total(population, n)
    if total == 0:
        return (0,) * len(population)
    sizes = [n * size // total for size in population]
    by_remainder = sorted(range(len(population)), key=lambda h: (-(n * population[h] % total), h))
    for h in by_remainder[: n - sum(sizes)]:
        sizes[h] += 1
    return tuple(sizes)


def proportional_with_floor(population: Sequence[int], n: int, *, floor: int) -> tuple[int, ...]:
    """n_h proportional to N_h, but no smaller than `floor`, which bends to N_h."""
    floors = [min(floor, size) for size in population]
    _check_bounds(n, floors, population)
    raised: set[int] = set()
    while True:
        others = [h for h in range(len(population)) if h not in raised]
        left = n - sum(floors[h] for h in raised)
        shares = dict(zip(others, proportional([population[h] for h in others], left), strict=True))
        short = {h for h, size in shares.items() if size < floors[h]}
        if not short:
            return tuple(shares.get(h, floors[h]) for h in range(len(population)))
        raised |= short


def floor_that_fits(population: Sequence[int], n: int, *, floor: int) -> int:
    """The largest floor up to `floor` that n units can give to every stratum; 0 where not even one each can be had."""
    return next((low for low in range(floor, 0, -1) if sum(min(low, size) for size in population) <= n), 0)


def equal(population: Sequence[int], n: int) -> tuple[int, ...]:
    """The same n_h everywhere; what a small stratum cannot give goes to the others, the rest to the earlier ones."""
    _check_total(population, n)
    sizes = [0] * len(population)
    left = n
    while left:
        open_strata = [h for h, size in enumerate(population) if sizes[h] < size]
        share = max(1, left // len(open_strata))
        for h in open_strata[:left]:
            step = min(share, population[h] - sizes[h], left)
            sizes[h] += step
            left -= step
    return tuple(sizes)


def fixed(population: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """The given n_h, checked against N_h."""
    _check_length(population, sizes, "sizes")
    for h, (available, wanted) in enumerate(zip(population, sizes, strict=True), 1):
        if not 0 <= wanted <= available:
            raise AllocationError(f"stratum {h} has {available} units; {wanted} cannot be drawn from it")
    return tuple(sizes)


def neyman(
    population: Sequence[int], rates: Sequence[float], n: int, *, floor: int = 2, cap: int | None = None
) -> tuple[int, ...]:
    """n_h proportional to N_h S_h with S_h = sqrt(p_h (1 - p_h)), exact in whole numbers between floor and cap.

    Units are given one by one to the largest priority value N_h S_h / sqrt(k (k + 1)), k being what the stratum has
    (Wright 2012, 2014). Floor and cap bend to N_h. Equal priorities go to the larger, then the earlier stratum.
    """
    _check_length(population, rates, "rates")
    if floor < 1:
        raise AllocationError("the floor must be at least 1: a stratum without a unit has no estimate")
    if any(not 0 <= rate <= 1 for rate in rates):
        raise AllocationError("rates must lie between 0 and 1")
    sizes = [min(floor, size) for size in population]
    limits = [size if cap is None else max(min(cap, size), low) for size, low in zip(population, sizes, strict=True)]
    _check_bounds(n, sizes, limits)
    spread = [size * math.sqrt(rate * (1 - rate)) for size, rate in zip(population, rates, strict=True)]
    _give_by_priority(n - sum(sizes), sizes, limits, spread)
    return tuple(sizes)


def _give_by_priority(left: int, sizes: list[int], limits: Sequence[int], spread: Sequence[float]) -> None:
    def entry(h: int) -> tuple[float, int, int]:
        return -spread[h] / math.sqrt(sizes[h] * (sizes[h] + 1)), -limits[h], h

    heap = [entry(h) for h in range(len(sizes)) if sizes[h] < limits[h]]
    heapq.heapify(heap)
    for _ in range(left):
        h = heap[0][2]
        sizes[h] += 1
        if sizes[h] < limits[h]:
            heapq.heapreplace(heap, entry(h))
        else:
            heapq.heappop(heap)


def smoothed_rate(events: int, n: int) -> float:
    """(x + 1) / (n + 2): the planning rate of a stratum, never 0 or 1, so that a quiet stratum still gets reviews."""
    if not 0 <= events <= n:
        raise AllocationError(f"{events} events of {n} is no count")
    return (events + 1) / (n + 2)


def expected_share(events: int, n: int, *, prior: tuple[float, float]) -> float:
    """(x + a) / (n + b): a planning rate that begins at a / b and gives way to what was seen."""
    if not 0 <= events <= n:
        raise AllocationError(f"{events} events of {n} is no count")
    return (events + prior[0]) / (n + prior[1])


def _check_total(population: Sequence[int], n: int) -> int:
    total = sum(population)
    if not 0 <= n <= total:
        raise AllocationError(f"{n} units cannot be drawn from a frame of {total}; ask for at most {total}")
    return total


def _check_bounds(n: int, floors: Sequence[int], limits: Sequence[int]) -> None:
    if n < sum(floors):
        raise AllocationError(f"{n} units are fewer than the floors of all strata need ({sum(floors)}); ask for more")
    if n > sum(limits):
        raise AllocationError(f"{n} units are more than the caps of all strata allow ({sum(limits)}); raise the cap")


def _check_length(population: Sequence[int], values: Sequence[float], name: str) -> None:
    if len(values) != len(population):
        raise AllocationError(f"{len(values)} {name} were given for {len(population)} strata")
