"""`synthbench tune`: which choices are kept for later runs, and what it says of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.cli import main
from synthbench.kernel import Kernel
from synthbench.measure.kernel_cache import read_choices, store_choices
from synthbench.run import tune
from synthbench.run_info import KernelChoice
from synthbench.suites.plan import Plan
from tests.kernel_choices import FAST, SLOW, cell
from tests.test_kernel_search import FakeHost

COMMAND = ("tune", "--device", "cpu", "--framework", "torch", "--variants", "V", "--minutes", "1")


def chosen(kernel: Kernel, warnings: tuple[str, ...] = ()) -> KernelChoice:
    return KernelChoice(cell=cell(), chosen=kernel, warnings=list(warnings))


class PlugIn(FakeHost):
    """Times code that may change without a trace."""

    def call(self, *request: Any) -> Any:
        answer = super().call(*request)
        return answer if isinstance(answer, list) else answer._replace(is_own=False)


@pytest.mark.parametrize(
    ("host", "earlier", "stored", "printed"),
    [
        (FakeHost(), [], chosen(FAST), ["choices.json: 1"]),
        (FakeHost(), [chosen(SLOW)], chosen(FAST), ["choices.json: 1"]),
        (
            FakeHost(disturbed={("V", 8): 2}), [], chosen(SLOW, ("far cores",)),
            ["choices.json: 1", "disturbed while they were timed: 1;"],
        ),
        (
            FakeHost(disturbed={("V", 8): 2}), [chosen(FAST)], chosen(FAST),
            ["choices.json: 0", "Choices not kept: 1; they were disturbed"],
        ),
        (PlugIn(), [chosen(SLOW)], chosen(SLOW), ["choices.json: 0", "Choices not kept: 1;"]),
    ],
)  # fmt: skip
def test_it_says_what_later_runs_will_find(
    host: FakeHost,
    earlier: list[KernelChoice],
    stored: KernelChoice,
    printed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "choices.json"
    store_choices(file, earlier)
    runner = SimpleNamespace(
        hosts={"torch": host}, missing={}, lock=SimpleNamespace(held=nullcontext),
        start=lambda frameworks: None, stop=lambda: None, environment=dict,
        limits=lambda: SimpleNamespace(memory_bytes=None),
    )  # fmt: skip
    tune_plan = tune.tune_plan
    monkeypatch.setattr(tune, "CellRunner", lambda *given: runner)
    monkeypatch.setattr(tune, "cache_file", lambda environment: file)

    def tune_one(plan: Plan, *rest: Any) -> tune.Tuned:
        return tune_plan(replace(plan, cells=(cell(),)), *rest)

    monkeypatch.setattr(tune, "tune_plan", tune_one)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(list(COMMAND))
    assert read_choices(file) == [stored]
    out = " ".join(capsys.readouterr().out.split())
    for text in printed:
        assert text in out
    _, _, end = out.partition("choices.json")
    assert end.count(";") == len(printed) - 1
