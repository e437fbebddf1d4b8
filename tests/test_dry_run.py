"""`synthbench run --dry-run`: the cells, what is skipped, the time; and nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthbench.cli.app import main
from synthbench.cli.dry_run import dry_run_lines
from synthbench.record import Outcome, Record
from synthbench.run import host_client, runner
from synthbench.run.estimate import OVERHEAD_SECONDS, Estimate, estimate
from synthbench.run.planning import plan_suite
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run, read_run
from synthbench.suites.plan import DEFAULT_COMPILE, Plan
from synthbench.suites.suite import parse_suite

SUITE = """
axes: {variant: [V, R, linformer], framework: [torch, jax], mode: [forward], seq_len: [8, 16],
  d_model: [8, 16], dtype: [float32, float16]}
model: {kind: decoder, d_model: 4, heads: 2, vocabulary: 11, max_len: 16}
measure: {rounds: 2, min_seconds: 0.5, max_seconds: 2, timeout_seconds: 60}
"""
SIMPLE = """
axes: {variant: [V, R], framework: [torch], seq_len: [8, 16]}
model: {d_model: 8, heads: 2}
measure: {rounds: 3, aa: false, min_seconds: 0.5, max_seconds: 2, timeout_seconds: 5}
"""

FOUR = "cuda:0,cuda:1,cuda:2,cuda:3"


def planned(text: str = SIMPLE, device: str = "cpu") -> Plan:
    return plan_suite(parse_suite(text, name="mine", source="mine.yaml"), device)


def lines(plan: Plan) -> list[str]:
    return list(dry_run_lines(plan, Estimate(60, 60, "nothing at all"), 100))


def earlier_run(
    folder: Path,
    plan: Plan,
    seconds: dict[int, float],
    started: str = "2026-01-01",
    outcome: Outcome = "ok",
) -> Path:
    """A run of the plan's cells of these lengths, each of which took so long."""
    settings = plan.settings.model_dump(mode="json")
    create_run(folder, RunInfo(suite=plan.suite, settings=settings, device="cpu", started=started))
    for cell in plan.cells:
        if cell.seq_len in seconds:
            append_record(
                folder,
                Record(
                    id=cell.id, cell=cell, outcome=outcome, started=started,
                    wall_seconds=seconds[cell.seq_len],
                ),
            )  # fmt: skip
    return folder


# --- what is printed -----------------------------------------------------------------------------


def test_cells_are_listed_by_setting_with_variants_and_lengths() -> None:
    printed = lines(planned(SUITE))
    assert printed[0] == "Suite mine on cpu: 24 cells in 2 rounds, 48 measurements"
    for framework in ("torch", "jax"):
        for width in (8, 16):
            heading = f"{framework}, forward, float32, model decoder, d_model {width}: 6 cells"
            begin = printed.index(heading)
            assert printed[begin + 1 : begin + 3] == [
                "  variants  V, V (A/A twin), R", "  lengths   8, 16",
            ]  # fmt: skip
    assert " ".join(printed[-3:-1]) == (
        "Time: about 60 s. It rests on nothing at all. Kernels that no earlier run has chosen take "
        "up to 2 min more."
    )
    assert printed[-1] == "Nothing was measured, nothing was written."


def test_what_is_skipped_is_listed_by_reason() -> None:
    printed = "\n".join(lines(planned(SUITE)))
    assert "Skipped: 32 cells" in printed
    assert "8 cells (torch, jax; forward; float32; linformer; lengths 8, 16): " in printed
    assert "24 cells (torch, jax; forward; float16; V, R, linformer; lengths 8, 16): " in printed
    assert "float16 is measured on accelerators only" in " ".join(printed.split())
    assert "causal" in printed
    assert "Skipped" not in "\n".join(lines(planned()))


def test_variants_that_lack_a_length_are_listed_apart() -> None:
    printed = lines(planned(SIMPLE.replace("[V, R]", "[V, R, 'FD(a=2, b=8)']")))
    heading = printed.index("torch, forward, float32, model mixer: 5 cells")
    assert printed[heading + 1 : heading + 5] == [
        "  variants  V, R", "  lengths   8, 16", "  variants  FD(a=2, b=8)", "  lengths   16",
    ]  # fmt: skip


def test_models_are_told_apart_by_their_label_and_notes_are_shown() -> None:
    text = """
axes: {variant: [R], framework: [jax], mode: [train], seq_len: [8]}
models: {narrow: {d_model: 8, heads: 2}, wide: {d_model: 16, heads: 2}}
"""
    printed = lines(planned(text))
    assert printed[1].startswith("Note: no ratios: mine.yaml names no baseline")
    assert "jax, train, float32, model narrow: 1 cell" in printed
    assert "jax, train, float32, model wide: 1 cell" in printed


def test_lines_are_wrapped() -> None:
    plan = planned(SIMPLE.replace("[V, R]", "[V, 'FR(rank=[1,2,3,4,5,6,7,9,10,11,12,13,14,15])']"))
    printed = list(dry_run_lines(plan, Estimate(1, 300, "word " * 50), 60))
    assert max(map(len, printed)) <= 60
    assert any(line.startswith("Time: 1 s to 5 min. It rests on word") for line in printed)


# --- the estimate --------------------------------------------------------------------------------


def test_an_earlier_run_is_matched_by_framework_mode_and_length(tmp_path: Path) -> None:
    plan = planned()
    folder = earlier_run(tmp_path / "mine" / "1", plan, {8: 1.0, 16: 4.0})
    found = estimate(plan, tmp_path)
    assert found.low == found.high == pytest.approx(3 * (4 * 1.0 + 4 * 4.0))
    assert found.basis == (
        f"median seconds per cell in {folder}, begun 2026-01-01: 8 of 8 cells are matched by "
        "task, framework, mode and length"
    )


def test_rounds_that_may_be_added_are_part_of_the_time(tmp_path: Path) -> None:
    """Of two rounds at least: 40 s; of twelve 240 s, and the sixth begins before 1.5 minutes."""
    plan = planned()
    earlier_run(tmp_path / "mine" / "1", plan, {8: 1.0, 16: 4.0})

    def found(rounds: str) -> Estimate:
        return estimate(planned(SIMPLE.replace("rounds: 3", rounds)), tmp_path)

    until_decided = "rounds: {at_least: 2, at_most: 12, until: decided}"
    whole, limited = found(until_decided), found(f"{until_decided}, minutes: 1.5")
    assert (whole.low, whole.high) == pytest.approx((40, 240))
    assert (limited.low, limited.high) == pytest.approx((40, 110))
    assert whole.basis.endswith("Undecided cells get up to 12 rounds")
    assert limited.basis.endswith("up to 12 rounds, none after 1.5 minutes")
    assert found(f"{until_decided}, minutes: 0.1").high == pytest.approx(40)


def test_cells_without_a_match_are_judged_by_the_nearest_kind(tmp_path: Path) -> None:
    plan = planned()
    earlier_run(tmp_path / "mine" / "1", plan, {8: 1.0})
    wider = planned(
        SIMPLE.replace("[torch]", "[torch, jax]").replace("max_seconds: 2", "max_seconds: 9")
    )
    found = estimate(wider, tmp_path)
    assert found.low == pytest.approx(3 * 16 * 1.0)
    assert "4 of 16 cells are matched by task, framework, mode and length" in found.basis
    assert "4 by task and framework and mode" in found.basis
    assert "8 by nothing, all its cells" in found.basis
    assert found.basis.endswith("That run had another max_seconds")


def test_a_round_that_only_repeats_an_outcome_took_no_time_of_its_own(tmp_path: Path) -> None:
    """Each cell timed out after 5 s in the first of three rounds, and no other one tries it."""
    before = planned()
    folder = earlier_run(tmp_path / "mine" / "1", before, {8: 5.0, 16: 5.0}, outcome="timeout")
    first = read_run(folder).records
    for number in (1, 2):
        for each in first:
            append_record(folder, each.model_copy(update={"round": number, "wall_seconds": 0.0}))
    for rounds in (1, 3, 9):
        plan = planned(SIMPLE.replace("rounds: 3", f"rounds: {rounds}"))
        assert estimate(plan, tmp_path).low == pytest.approx(5.0 * len(plan.cells))


def test_rounds_of_a_cell_count_as_their_mean(tmp_path: Path) -> None:
    plan = planned()
    folder = earlier_run(tmp_path / "mine" / "1", plan, {8: 1.0, 16: 1.0})
    for each in read_run(folder).records:
        append_record(folder, each.model_copy(update={"round": 1, "wall_seconds": 2.0}))
    assert estimate(plan, tmp_path).low == pytest.approx(3 * 1.5 * len(plan.cells))


def test_devices_that_measure_at_the_same_time_share_the_time(tmp_path: Path) -> None:
    """Also where each measures some rounds of every cell, which is on none of them in the plan."""
    one, two = (estimate(planned(device=name), tmp_path) for name in ("cuda:0", "cuda:0,cuda:1"))
    assert two.low == pytest.approx(one.low / 2)
    text = SIMPLE.replace("rounds: 3", "rounds: 4, machines: 2")
    one, two, four = (
        estimate(planned(text, device), tmp_path) for device in ("cuda:0", "cuda:0,cuda:1", FOUR)
    )
    assert two.low == pytest.approx(one.low / 2)
    assert four.low == pytest.approx(one.low / 4)
    alone = text.replace("seq_len: [8, 16]", "mode: [train], seq_len: [8]")
    one, four = (estimate(planned(alone, device), tmp_path) for device in ("cuda:0", FOUR))
    assert four.low == pytest.approx(one.low / 2)  # of its two parts, each is on one device


def test_the_newest_run_of_this_suite_and_kind_of_device_counts(tmp_path: Path) -> None:
    plan = planned()
    earlier_run(tmp_path / "mine" / "a", plan, {8: 1.0, 16: 1.0}, "2026-01-01")
    earlier_run(tmp_path / "mine" / "b", plan, {8: 2.0, 16: 2.0}, "2026-01-03")
    earlier_run(tmp_path / "mine" / "c", plan, {}, "2026-01-04")  # nothing measured yet
    earlier_run(tmp_path / "mine" / "d", plan, {8: 9.0}, "2026-01-05", "unsupported")
    broken = tmp_path / "mine" / "e"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert estimate(plan, tmp_path).low == pytest.approx(3 * 8 * 2.0)
    on_cuda = estimate(planned(device="cuda:0"), tmp_path)
    assert "there is no run of mine on cuda below" in on_cuda.basis


def test_without_an_earlier_run_the_limits_give_a_range(tmp_path: Path) -> None:
    plan = planned()
    found = estimate(plan, tmp_path)
    least, _ = OVERHEAD_SECONDS["torch", "eager", "mixer"]
    of_baseline, of_other = 0.5 + least, 2 * 0.5 + least  # R has the baseline beside it
    assert found.low == pytest.approx(3 * 4 * (of_baseline + of_other))
    assert estimate(planned(SIMPLE.replace("aa:", "paired: false, aa:")), tmp_path).low == (
        pytest.approx(3 * 8 * of_baseline)
    )
    assert found.high == pytest.approx(3 * 8 * 5)  # timeout_seconds
    assert "a rough range" in found.basis
    assert "min_seconds 0.5 to max_seconds 2, and as long for the baseline" in found.basis
    for framework, compiled in DEFAULT_COMPILE.items():
        for kind in ("mixer", "stack"):
            assert (framework, compiled, kind) in OVERHEAD_SECONDS


def test_a_committed_run_is_found() -> None:
    results = Path(__file__).parents[1] / "results"
    plan = planned(SIMPLE)
    named = parse_suite(SIMPLE, name="table9", source="mine.yaml")
    found = estimate(plan_suite(named, "cpu"), results)
    assert "table9/cpu-reference" in found.basis
    assert found.low == found.high > len(plan.cells)


# --- the command ---------------------------------------------------------------------------------


def test_the_command_measures_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(SIMPLE)
    monkeypatch.setattr(runner, "run_plan", lambda *_, **__: pytest.fail("it runs"))
    monkeypatch.setattr(host_client.Host, "launch", lambda *_: pytest.fail("it starts a process"))
    call = ["run", "--suite", "mine.yaml", "--device", "cpu", "--dry-run"]
    with pytest.raises(SystemExit) as exit:
        main([*call, "--variants", "V,FR(rank=[2,3])", "--seq-len", "8", "--out", "somewhere"])
    out, err = capsys.readouterr()
    assert (exit.value.code or 0, err) == (0, "")
    assert out.startswith("Suite mine on cpu: 6 cells in 3 rounds, 18 measurements\n")
    assert "  variants  V, FR(rank=2), FR(rank=3)\n" in out
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]
    with pytest.raises(SystemExit) as exit:
        main([*call, "--resume"])
    assert exit.value.code == 2
    assert "leave --resume out" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit:
        main([*call, "--slots", "9999"])
    assert exit.value.code == 2
    assert "--slots 9999: give 1 to" in capsys.readouterr().err


def test_cells_in_slots_share_the_time(tmp_path: Path) -> None:
    one, three = (estimate(planned(), tmp_path, slots) for slots in (1, 3))
    assert (one.low, one.high) == pytest.approx((3 * three.low, 3 * three.high))


def test_a_training_is_judged_by_its_steps(tmp_path: Path) -> None:
    """Twice as many steps take twice as long, beside what starts a cell."""
    text = """
axes: {{variant: [V], task: [mqar], framework: [torch], mode: [train], seq_len: [32]}}
model: {{kind: decoder, d_model: 64, heads: 2, vocabulary: 64}}
tasks: {{mqar: {{steps: {steps}}}}}
measure: {{timeout_seconds: 1000000}}
"""
    found = [estimate(planned(text.format(steps=n)), tmp_path) for n in (1000, 2000, 4000)]
    assert "A training takes its FLOPs at" in found[0].basis
    for end in ("low", "high"):
        seconds = [getattr(each, end) for each in found]
        assert seconds[2] - seconds[1] == pytest.approx(2 * (seconds[1] - seconds[0]))
        assert seconds[1] > seconds[0]
