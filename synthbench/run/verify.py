"""Compare variants between the frameworks and with the NumPy reference, in child processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from synthbench.errors import FrameworkMissingError, SynthbenchError
from synthbench.measure.parity import FORWARD_TOLERANCE, gradient_difference, relative_error
from synthbench.run.host_client import Host

Cases = Mapping[str, Mapping[str, Any]]  # what measure.parity.collect returns


@dataclass(frozen=True)
class Verdict:
    """The largest errors of one variant over all cases; None if there is nothing to compare.

    `forward` holds an error for each framework against the NumPy reference; `outputs` and
    `gradients` are torch against jax. All are relative to the largest value.
    """

    variant: str
    tolerance: float
    cases: int = 0
    forward: dict[str, float | None] = field(default_factory=dict)
    outputs: float | None = None
    gradients: float | None = None
    refused: dict[str, str] = field(default_factory=dict)  # framework -> why it could not run

    @property
    def errors(self) -> list[float]:
        """Every error that was found."""
        found = [*self.forward.values(), self.outputs, self.gradients]
        return [error for error in found if error is not None]

    @property
    def passed(self) -> bool:
        """Whether something was compared, and nothing is over the tolerance."""
        return bool(self.errors) and all(error <= self.tolerance for error in self.errors)


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

    def verify(self, variants: Sequence[str], dtype: str) -> Iterator[Verdict]:
        """A verdict for each variant in turn; float32 or float64."""
        for variant in variants:
            collected: dict[str, Cases] = {}
            refused: dict[str, str] = {}
            for framework, host in self._hosts.items():
                request = {"framework": framework, "variant": variant, "dtype": dtype}
                try:
                    collected[framework] = host.call("synthbench.measure.parity:collect", request)
                except SynthbenchError as error:
                    refused[framework] = str(error)
            yield compare(variant, collected, FORWARD_TOLERANCE[dtype], refused)


def compare(
    variant: str,
    collected: Mapping[str, Cases],
    tolerance: float,
    refused: Mapping[str, str] | None = None,
) -> Verdict:
    """The verdict on what was collected in each framework."""
    forward = {framework: _forward_error(cases) for framework, cases in collected.items()}
    outputs = gradients = None
    if len(collected) == 2:
        one, other = collected.values()
        if one.keys() != other.keys():
            raise SynthbenchError(
                f"{variant}: the frameworks ran different cases: {sorted(one)} and {sorted(other)}"
            )
        outputs = max(relative_error(one[c]["forward"], other[c]["forward"]) for c in one)
        gradients = max(_gradient_error(one[c], other[c]) for c in one)
    count = max((len(cases) for cases in collected.values()), default=0)
    return Verdict(variant, tolerance, count, forward, outputs, gradients, dict(refused or {}))


def _forward_error(cases: Cases) -> float | None:
    """The largest error against the NumPy reference; None if the mixer has none."""
    compared = [case for case in cases.values() if case["reference"] is not None]
    errors = [relative_error(case["forward"], case["reference"]) for case in compared]
    return max(errors, default=None)


def _gradient_error(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The largest difference of gradients; infinite if they are of different parameters."""
    if one["gradients"].keys() != other["gradients"].keys():
        return float("inf")
    return gradient_difference(one["gradients"], other["gradients"])
