"""Compare variants between the frameworks and with the NumPy reference, in child processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from synthbench.errors import FrameworkMissingError, SynthbenchError, UnsupportedError
from synthbench.measure.differences import first_difference
from synthbench.measure.parity import (
    FORWARD_TOLERANCE,
    GRADIENT_TOLERANCE,
    LOW_PRECISION,
    relative_error,
    whole_difference,
)
from synthbench.measure.verification import Comparison, Examined
from synthbench.mixers.base import Array
from synthbench.run.host_client import Host


@dataclass(frozen=True)
class Verdict:
    """Every comparison of one variant, what ended with an error, and what is not supported.

    Errors are relative to the largest value. A variant passes if something was compared, no error
    is above its tolerance, nothing ended with an error, and nothing that was required is missing.
    """

    variant: str
    comparisons: list[Comparison] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unsupported: dict[str, str] = field(default_factory=dict)  # framework -> why
    notes: list[str] = field(default_factory=list)  # what could not be checked

    def worst(
        self, what: str, framework: str | None = None, against: str | None = None
    ) -> Comparison | None:
        """The comparison of outputs or gradients with the largest error; None if there is none."""
        found = [
            c
            for c in self.comparisons
            if c.what == what and framework in (None, c.framework) and against in (None, c.against)
        ]
        return max(found, key=lambda c: c.error, default=None)

    @property
    def failures(self) -> list[str]:
        """One sentence per way in which the variant failed, with the worst case of each."""
        worst: dict[tuple[str, ...], Comparison] = {}
        for found in self.comparisons:
            key = (found.framework, found.against, found.what, found.form)
            if not found.passed and (key not in worst or found.error > worst[key].error):
                worst[key] = found
        return self.problems + [str(comparison) for comparison in worst.values()]

    @property
    def passed(self) -> bool:
        """Whether something was compared, and nothing failed."""
        return bool(self.comparisons) and not self.failures


class Verifier:
    """A host process for each framework; a context manager that starts and stops them."""

    def __init__(self, frameworks: Sequence[str], plugins: Sequence[str] = ()) -> None:
        self.missing: dict[str, str] = {}  # framework -> why it cannot be used
        self._hosts = {name: Host(name, plugins=plugins) for name in frameworks}
        self._stack = ExitStack()

    def __enter__(self) -> Verifier:
        for host in self._hosts.values():
            self._stack.callback(host.stop)
            host.launch()  # all import at the same time
        for framework, host in list(self._hosts.items()):
            try:
                host.start()
            except FrameworkMissingError as error:
                self.missing[framework] = str(error)
                del self._hosts[framework]
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def verify(
        self, variants: Sequence[str], dtype: str, *, require_both: bool = False
    ) -> Iterator[Verdict]:
        """A verdict for each variant in turn; `require_both`: what is not supported is a failure.

        An error of a mixer is a failure, unless it is an UnsupportedError.
        """
        for variant in variants:
            examined: dict[str, Examined] = {}
            problems: list[str] = []
            unsupported: dict[str, str] = {}
            for framework, host in self._hosts.items():
                request = {"framework": framework, "variant": variant, "dtype": dtype}
                try:
                    examined[framework] = host.call(EXAMINE, request)
                except UnsupportedError as error:
                    unsupported[framework] = str(error)
                except SynthbenchError as error:
                    problems.append(f"{framework}: {error}")
            verdict = compare(variant, examined, dtype)
            problems += verdict.problems
            if require_both:
                problems += [f"{name} is required: {why}" for name, why in unsupported.items()]
                problems += [f"{name} is required: {why}" for name, why in self.missing.items()]
            notes = [note for found in examined.values() for note in found.notes]
            yield Verdict(variant, verdict.comparisons, problems, unsupported, notes)


EXAMINE = "synthbench.measure.verification:examine"


def compare(variant: str, examined: Mapping[str, Examined], dtype: str) -> Verdict:
    """The verdict on what each framework computed, and on the two compared with each other."""
    comparisons = [c for found in examined.values() for c in found.comparisons]
    # what is wrong with the reference is found in each framework
    problems = list(dict.fromkeys(p for found in examined.values() for p in found.problems))
    if len(examined) == 2:
        (name, one), (other_name, other) = examined.items()
        for case in one.results.keys() & other.results.keys():
            both = _Both(name, other_name, case, one.form, dtype)
            got, want = one.results[case], other.results[case]
            comparisons.append(both.outputs(got.outputs, want.outputs))
            comparisons.append(both.gradients(got.gradients, want.gradients))
        for case in sorted(one.results.keys() ^ other.results.keys()):
            if not one.problems and not other.problems:
                ran = name if case in one.results else other_name
                problems.append(f"{case}: only {ran} supports this case")
    return Verdict(variant, comparisons, problems)


@dataclass(frozen=True)
class _Both:
    """The comparison of one case in two frameworks."""

    framework: str
    against: str
    case: str
    form: str
    dtype: str

    def outputs(self, got: Array, want: Array) -> Comparison:
        tolerance = FORWARD_TOLERANCE[self.dtype]
        error = relative_error(got, want)
        where = ""
        if not error <= tolerance:
            where = first_difference(got, want, tolerance * float(np.abs(want).max()))
        return self._of("outputs", error, tolerance, where)

    def gradients(self, got: Mapping[str, Array], want: Mapping[str, Array]) -> Comparison:
        """The worst parameter, relative to its largest value or a hundredth of the largest."""
        tolerance = DIRECT_TOLERANCE[self.dtype]
        if got.keys() != want.keys():
            only = ", ".join(sorted(got.keys() ^ want.keys()))
            return self._of("gradients", float("inf"), tolerance, f"only one has {only}")
        if self.dtype in LOW_PRECISION:
            return self._of("gradients", whole_difference(got, want), tolerance, "all together")
        largest = {name: float(np.abs(g).max()) for name, g in want.items()}
        floor = 1e-2 * max(largest.values(), default=0.0)
        scale = {name: max(value, floor) for name, value in largest.items()}
        errors = {name: relative_error(got[name], want[name], scale[name]) for name in want}
        if not errors:
            return self._of("gradients", 0.0, tolerance, "")
        worst = max(errors, key=lambda name: errors[name])
        where = ""
        if not errors[worst] <= tolerance:
            allowed = tolerance * scale[worst]
            where = f"worst parameter: {worst!r}, "
            where += first_difference(got[worst], want[worst], allowed)
        return self._of("gradients", errors[worst], tolerance, where)

    def _of(self, what: str, error: float, tolerance: float, where: str) -> Comparison:
        return Comparison(
            self.framework, self.against, what, self.case, self.form, error, tolerance, where
        )


# Two sets of gradients are compared directly: no central difference limits float64.
DIRECT_TOLERANCE = GRADIENT_TOLERANCE | {"float64": FORWARD_TOLERANCE["float64"]}
