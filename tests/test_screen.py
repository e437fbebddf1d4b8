"""The screen: order, marks, answers, what fits, and what it says of runs that have little."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from synthbench.analysis.comparison import Estimate, Judgement, Verdict
from synthbench.analysis.scaling import Crossing, Exponent, Kind
from synthbench.errors import NotationError, UnknownNameError
from synthbench.record import Record
from synthbench.report.data.grid import Key
from synthbench.report.data.prepared import Prepared, prepare
from synthbench.report.data.selection import Selection, sorted_tables
from synthbench.report.data.table import Table
from synthbench.report.screen.blocks import Block, Entry, LengthRow
from synthbench.report.screen.fit import GAP, fit, flow
from synthbench.report.screen.head import short_name
from synthbench.report.screen.pareto import Point, pareto_front
from synthbench.report.screen.screen import ALL, HEIGHT, WIDTH, Screen, screen_lines, screen_of
from synthbench.report.screen.texts import MARKS, answer_text, entry_text
from synthbench.report.tables.catalog import make_tables
from synthbench.report.tables.scaling import Overtaking
from synthbench.report.text.terminal import print_screen, print_tables
from synthbench.store import read_run
from tests.learning_records import declare, learning_records
from tests.test_ratios import records as known_records
from tests.test_tables import all_records, cell, record, run_of, value

REFERENCE = Path(__file__).parents[1] / "results" / "seq_scaling" / "cpu-reference"
FOOTER = 2  # lines that `synthbench run` prints below the screen


def text_of(screen: Screen, width: int = WIDTH, height: int = HEIGHT) -> str:
    return "\n".join(line.text for line in screen_lines(screen, width, height))


def text_of_run(records: list[Record], **changes: Any) -> str:
    return text_of(screen_of(prepare(run_of(records, **changes))))


def line_of(text: str, beginning: str) -> str:
    """The one line that begins so, without its indent."""
    (found,) = [line.strip() for line in text.splitlines() if line.strip().startswith(beginning)]
    return found


@pytest.fixture(scope="module")
def known() -> Screen:
    """V grows as n^2; R is linear and even with V at 300; D is V and 5% more, FR all but V."""
    return screen_of(prepare(run_of(list(known_records()))))


@pytest.fixture(scope="module")
def reference() -> Prepared:
    return prepare(read_run(REFERENCE))


@pytest.mark.parametrize(
    ("cpu", "shown"),
    [
        ("Intel(R) Xeon(R) Processor", "Intel Xeon"),
        ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", "Intel Core i7-8550U @ 1.80GHz"),
        ("AMD EPYC 9B14 96-Core Processor", "AMD EPYC 9B14 96-Core"),
        ("AMD EPYC", "AMD EPYC"),
        ("CPU", "CPU"),
    ],
)
def test_a_cpu_is_named_without_what_every_name_has(cpu: str, shown: str) -> None:
    assert short_name(cpu) == shown


# --- order, marks, answers -----------------------------------------------------------------------


def test_variants_stand_by_speed_with_the_marks_of_their_verdicts(known: Screen) -> None:
    (block,) = known.blocks
    assert [entry.variant for entry in block.rows[-1].entries] == ["R", "FR", "D"]
    assert [entry.variant for entry in block.rows[0].entries] == ["FR", "D", "R"]
    text = text_of(known)
    first, last = line_of(text, "128 "), line_of(text, "2048 ")
    assert re.search(r"none +FR 0\.99\d= +D 0\.95\d- +R 0\.42\d- ", first)
    assert re.search(r"R 6\.8\d \(6\.\d\d-6\.\d\d\) +FR 0\.99\d= +D 0\.95\d- ", last)
    assert last.split()[:2] == ["2048", "41.9"]  # milliseconds of V
    assert "same within 3.0%" in text


def test_memory_exponents_and_crossings_are_the_known_ones(known: Screen) -> None:
    (block,) = known.blocks
    assert [row.least_memory for row in block.rows[::4]] == [("V", 163_840), ("R", 10_240_000)]
    text = text_of(known)
    assert line_of(text, "128 ").endswith("V 0.164")
    assert line_of(text, "2048 ").endswith("R 10.2")
    assert [point.variant for point in block.front] == ["R"]
    exponents = line_of(text, "time ~ L^x").split()
    for variant, power in (("V", "2.00±"), ("R", "1.00±"), ("FR", "2.00±"), ("D", "2.00±")):
        assert exponents[exponents.index(variant) + 1].startswith(power)
    ((variant, overtaking),) = block.crossings  # that of D is never, that of FR is within the noise
    assert variant == "R"
    assert overtaking.crossing.length == pytest.approx(300, rel=0.01)
    assert re.search(r"R from (299|30\d) \(\d{3} to \d{3}\)", line_of(text, "faster than V"))


VERDICTS: list[Verdict] = ["faster", "slower", "same", "undecided", "one round"]
ratio = st.floats(0.01, 100)
judgements = st.builds(
    lambda ratio, error, verdict: Judgement(
        Estimate(math.log(ratio), error, 4.0, 1 if verdict == "one round" else 3), verdict
    ),
    ratio, st.floats(0, 0.5), st.sampled_from(VERDICTS),
)  # fmt: skip
words = st.sampled_from(["oom", "timeout", "not run", "V oom", "no shared round"])
names = st.text("abcdefghijRFV+=(),0123456789", min_size=1, max_size=32)
entries = st.builds(Entry, names, ratio | words, judgements | words)


def row_of(found: list[Entry], seq_len: int = 64) -> LengthRow:
    return LengthRow(seq_len, 0.1, tuple(sorted(found, key=lambda one: one.rank)), ("V", 1e6))


@given(st.lists(entries, max_size=12))
def test_only_a_variant_that_is_surely_faster_is_an_answer(found: list[Entry]) -> None:
    row = row_of(found)
    faster = [
        one for one in found
        if isinstance(one.compared, Judgement) and one.compared.verdict == "faster"
    ]  # fmt: skip
    if not faster:
        assert row.answer is None
        assert answer_text(row) in ("none", "no verdict")
    else:
        assert row.answer in faster
        assert row.answer.rank == min(one.rank for one in faster)
        assert answer_text(row).startswith(row.answer.variant)
    for entry in found:
        if isinstance(entry.compared, Judgement):
            assert MARKS[entry.compared.verdict] in entry_text(entry)


@given(st.lists(entries, max_size=12))
def test_the_order_is_that_of_the_measured_ratios_then_of_times(found: list[Entry]) -> None:
    row = row_of(found)
    kinds = [
        0 if isinstance(one.compared, Judgement) else 1 + isinstance(one.seconds, str)
        for one in row.entries
    ]
    assert kinds == sorted(kinds)
    ratios = [
        one.compared.estimate.ratio for one in row.entries if isinstance(one.compared, Judgement)
    ]
    assert ratios == sorted(ratios, reverse=True)


def test_an_answer_is_faster_in_the_table_too(reference: Prepared) -> None:
    ratios = next(table for table in make_tables(reference.run) if table.name == "ratios")
    answered = 0
    for block in screen_of(reference).blocks:
        for row in block.rows:
            column = f"L={row.seq_len} verdict"
            for entry in row.entries:
                keys = {"framework": block.framework, "mode": block.mode, "variant": entry.variant}
                assert isinstance(entry.compared, Judgement)
                assert value(ratios, column, **keys).startswith(entry.compared.verdict)
            if row.answer is not None:
                keys |= {"variant": row.answer.variant}
                assert value(ratios, column, **keys) == "faster"
                answered += 1
    assert answered > 10


# --- the Pareto front ----------------------------------------------------------------------------

small = st.integers(1, 6).map(float)  # so that many are equal
points = st.lists(st.builds(Point, st.text("abc", max_size=3), small, small), max_size=15)


def dominates(one: Point, other: Point) -> bool:
    no_worse = one.seconds <= other.seconds and one.peak_bytes <= other.peak_bytes
    return no_worse and one[1:] != other[1:]


@given(points)
def test_the_front_is_what_no_other_point_dominates(given: list[Point]) -> None:
    front = pareto_front(given)
    for point in given:
        assert (point in front) == (not any(dominates(other, point) for other in given))
    assert len(front) == sum(point in front for point in given)  # equal points are all kept
    assert [point.seconds for point in front] == sorted(point.seconds for point in front)


# --- what fits -----------------------------------------------------------------------------------

pieces = st.lists(st.text("abc=", min_size=1, max_size=12), max_size=12)


@given(pieces, st.integers(24, 60), st.integers(1, 4))
def test_pieces_are_shown_or_counted_and_never_cut(
    given: list[str], width: int, lines: int
) -> None:
    flowed = flow(given, width)
    assert GAP.join(flowed).split() == " ".join(given).split()
    assert all(len(line) <= width for line in flow(given, width, "; "))
    assert "; ".join(line.removesuffix(";") for line in flow(given, width, "; ")) == "; ".join(
        given
    )
    found = fit(given, width, lines)
    assert len(found) <= lines
    assert all(len(line) <= width for line in found)
    shown = GAP.join(found).split(GAP) if found else []
    left_out = 0
    if shown and (more := re.fullmatch(r"(\d+) more", shown[-1])):
        left_out = int(more[1])
        shown.pop()
    assert shown == given[: len(shown)]
    assert len(shown) + left_out == len(given)


@pytest.mark.parametrize("width", [WIDTH, 132, 200])
def test_the_reference_run_fits_one_screen(reference: Prepared, width: int) -> None:
    lines = screen_lines(screen_of(reference), width, HEIGHT - FOOTER)
    assert len(lines) <= HEIGHT - FOOTER
    assert max(len(line.text) for line in lines) <= width
    text = "\n".join(line.text for line in lines)
    for framework in ("torch", "jax"):
        for mode in ("forward", "train"):
            assert line_of(text, f"{framework} {mode} ")
    for length in (128, 256, 512, 1024, 2048):  # one row in each part
        assert len(re.findall(rf"^ +{length} ", text, re.MULTILINE)) == 4
    assert text.count("front at 2048") == text.count("time ~ L^x") == 4
    assert "left out" not in text


def test_a_wider_terminal_and_fewer_rows_show_more_variants(reference: Prepared) -> None:
    def shown(width: int, selection: Selection = ALL) -> int:
        return len(re.findall(r"\d[+?=-]", text_of(screen_of(reference, selection), width)))

    assert shown(100) < shown(150) < shown(200)
    one = Selection(frameworks=("jax",), modes=("train",), lengths=(2048,))
    assert "more  " not in text_of(screen_of(reference, one))
    assert shown(100, one) >= 18  # of 21 variants: not V, the answer, and what is ≈ V


def made_block(random: Random, lengths: int, variants: int, longest: int) -> Block:
    """A block of any content, with names of at most `longest` characters."""

    def name() -> str:
        return "".join(random.choices("abRFV+=(),01", k=random.randint(1, longest)))

    def judged() -> Judgement | str:
        verdict = random.choice(VERDICTS)
        found = Estimate(random.uniform(-4, 4), random.uniform(0, 0.5), 4.0, 3)
        return Judgement(found, verdict) if random.random() < 0.7 else "V oom"

    def entry() -> Entry:
        return Entry(
            name(), 10 ** random.uniform(-4, 2) if random.random() < 0.5 else "oom", judged()
        )

    setting = random.choice(["", "", "form=fused", "batch=4 dtype=bfloat16 label=translation"])
    exponents = [Exponent(1.5, 1.5 - half, 1.5 + half) for half in (0.0, 0.25)]
    kinds: list[Kind] = ["overtakes", "falls behind"]
    crossings = [
        Overtaking(Crossing(random.choice(kinds), random.uniform(64, 4096), 0, math.inf), (64,), 3)
        for _ in range(random.randint(0, 4))
    ]
    return Block(
        setting,
        random.choice(["torch", "jax"]),
        random.choice(["forward", "train"]),
        random.random() < 0.8,
        tuple(row_of([entry() for _ in range(variants)], 2 ** (5 + n)) for n in range(lengths)),
        tuple(Point(name(), random.uniform(0, 9), 1e8) for _ in range(random.randint(0, 6))),
        tuple((name(), random.choice(exponents)) for _ in range(random.choice([0, variants]))),
        tuple((name(), one) for one in crossings),
    )


@settings(max_examples=40)
@given(
    blocks=st.integers(0, 16), lengths=st.integers(1, 12), variants=st.integers(0, 30),
    longest=st.integers(1, 32), reasons=st.lists(st.text("abc ", max_size=400), max_size=6),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_a_screen_of_any_shape_fits(
    blocks: int, lengths: int, variants: int, longest: int, reasons: list[str], seed: int
) -> None:
    random = Random(seed)
    found = [made_block(random, lengths, variants, longest) for _ in range(blocks)]
    failures = [f"oom: R torch train L=64: {reason}" for reason in reasons]
    trust = ["parity 1 of 1", "noise 3%"]
    screen = Screen(
        ["suite on cpu: 1 variant"], ["This run is not finished."], trust, ["+ faster"], failures,
        found, "V", ["More: --all"],
    )  # fmt: skip
    lines = screen_lines(screen, WIDTH, HEIGHT - FOOTER)
    assert len(lines) <= HEIGHT - FOOTER
    assert max(len(line.text) for line in lines) <= WIDTH
    text = "\n".join(line.text for line in lines)
    headings = len(re.findall(r"^(torch|jax) ", text, re.MULTILINE))
    assert headings > 0 or not blocks
    if headings < blocks:
        assert f"{blocks - headings} of {blocks} parts" in text


def test_nothing_is_cut_even_where_a_name_is_too_long() -> None:
    long = "mine(" + "option=value," * 4 + ")"
    found = [
        record(cell(name, "torch", "train", 64), seconds, round=number)
        for name, seconds in (("V", 0.02), (long, 0.01), ("R", 0.03))
        for number in (0, 1)
    ]
    run = run_of(found)
    out = io.StringIO()
    console = Console(file=out, width=WIDTH)
    print_screen(console, screen_lines(screen_of(prepare(run)), WIDTH))
    assert f"{long} 2.00" in out.getvalue()
    tables = make_tables(run)
    out.seek(0)
    out.truncate()
    print_tables(console, tables)
    text = out.getvalue()
    for table in tables:
        for shown in table.shown:
            for column, entry in zip(table.columns, shown, strict=True):
                assert entry in text or (len(entry) > 60 and not column.is_key)
    assert text.count(f"{long}  torch") >= 2
    assert console.width == WIDTH


# --- runs that have little -----------------------------------------------------------------------


def test_a_run_without_records_says_so() -> None:
    text = text_of_run([], finished=None)
    assert text.startswith("made_up on cpu: no records yet")
    assert "This run is not finished; continue it with `synthbench run --resume`." in text
    assert "Trust" not in text
    assert "--all" in text


def test_a_run_of_the_baseline_alone_shows_its_time_and_memory() -> None:
    text = text_of_run([record(cell("V", "jax", "train", 64), 0.01)])
    assert "1 variant, jax, train, length 64, 1 round" in text
    assert "No variant can be compared with the baseline V" in text
    assert "fastest +" not in text
    assert line_of(text, "64 ").split() == ["64", "10.0", "V", "2.50"]


def test_a_run_without_its_baseline_is_ordered_by_time() -> None:
    found = [("R", 0.02), ("FR", 0.01)]
    text = text_of_run([record(cell(name, "torch", "train", 64), s) for name, s in found])
    assert "no cells of its baseline V: no ratios, no verdicts" in text
    assert "fastest +" not in text
    assert re.search(r"64 +FR 10\.0 ms +R 20\.0 ms", text)


def test_one_round_has_ratios_and_no_answer() -> None:
    found = [("V", 0.02), ("R", 0.01)]
    text = text_of_run([record(cell(name, "torch", "train", 64), s) for name, s in found])
    assert "~ one round, too few for a verdict, * disturbed" in text
    assert "fastest +" not in text
    assert "R 2.00~" in line_of(text, "64 ")
    assert "noise not measured" in text


def test_a_run_without_numbers_gives_the_reasons() -> None:
    found = [
        record(cell(name, "torch", "train", length), outcome="oom", reason="needs 9 GB")
        for name in ("V", "R") for length in (64, 128)
    ]  # fmt: skip
    text = text_of_run(found)
    assert line_of(text, "oom: ") == "oom: V torch train L=64 and 3 other cells: needs 9 GB"
    assert "quarantined 0; oom 4" in text
    assert re.search(r"128 +oom +R oom +none", text)
    assert "fastest +" not in text


def test_a_baseline_that_fails_at_one_length_leaves_times_there() -> None:
    found = [record(cell(name, "torch", "train", 64), 0.01) for name in ("V", "R")]
    found += [record(cell("V", "torch", "train", 128), outcome="oom", reason="full")]
    found += [record(cell("R", "torch", "train", 128), 0.02)]
    assert "128 " in text_of_run(found)
    assert line_of(text_of_run(found), "128 ").split()[:4] == ["128", "oom", "R", "20.0"]


def test_trust_counts_what_failed_and_what_was_disturbed() -> None:
    text = text_of_run(list(all_records()))
    trust = line_of(text, "Trust: ")
    for part in ("parity 10 of 10", "noise not measured", "disturbed 1 of 40",
                 "quarantined 1", "crashed 1", "oom 1", "oom_predicted 1"):  # fmt: skip
        assert part in text, trust
    assert "1.00*" in text or "10.0*" in text  # V in jax, train, at length 64, was disturbed


def test_trust_names_the_first_variant_that_was_not_checked() -> None:
    """Where there is room for it; its framework where there are several."""

    def of_run(*names: str, twin: bool = False) -> str:
        found = [record(cell("V", "torch", "train", 64))]
        found += [record(cell("V", "torch", "train", 64, replica=1))] * twin
        found += [record(cell(name, "torch", "train", 64), parity=None) for name in names]
        return line_of(text_of_run(found), "Trust: ")

    assert of_run().startswith("Trust: parity 1 of 1; noise ")
    assert of_run("fnet").startswith("Trust: parity 1 of 2 (1 not checked: fnet); noise ")
    first = of_run("fnet", "gau", twin=True)
    assert first.startswith("Trust: parity 1 of 3 (2 not checked, first: fnet); noise ")
    assert of_run("FR(rank=32)+D(tie_query=true)+V").startswith(
        "Trust: parity 1 of 2 (1 not checked); noise "
    )
    both = [record(cell(name, "torch", "train", 64)) for name in ("V", "R")]
    both += [record(cell("V", "jax", "train", 64))]
    both += [record(cell("R", "jax", "train", 64), parity=None)]
    assert line_of(text_of_run(both), "Trust: ").startswith(
        "Trust: parity 3 of 4 (1 not checked: R in jax); noise not measured; "
    )


def test_what_to_see_next_are_variants_with_numbers() -> None:
    found = [record(cell(name, "torch", "train", 64), 0.02) for name in ("V", "FR")]
    found += [record(cell("R", "torch", "train", 64), outcome="quarantined", reason="wrong")]
    assert '--variants "V,FR"' in text_of_run(found)


def test_settings_stand_apart() -> None:
    found = [
        record(cell(name, "torch", "forward", 64, dtype=dtype), seconds)
        for name, seconds in (("V", 0.02), ("R", 0.01)) for dtype in ("float32", "bfloat16")
    ]  # fmt: skip
    text = text_of_run(found)
    assert "torch forward, dtype=bfloat16" in text
    assert "torch forward, dtype=float32" in text
    assert "Rows also differ in dtype" in text


# --- choosing rows -------------------------------------------------------------------------------


def test_a_selection_changes_no_verdict(reference: Prepared) -> None:
    chosen = Selection.of(
        reference.grid, variants=["V", "linformer"], frameworks=["jax"], lengths=[256, 2048]
    )
    screen = screen_of(reference, chosen)
    assert [(block.framework, block.mode) for block in screen.blocks] == [
        ("jax", "forward"), ("jax", "train"),
    ]  # fmt: skip
    for block in screen.blocks:
        assert [row.seq_len for row in block.rows] == [256, 2048]
        for row in block.rows:
            (entry,) = row.entries
            key = Key("", "linformer", "jax", block.mode, row.seq_len)
            assert entry.compared == reference.context.verdicts[key]


def tables_by_name(prepared: Prepared) -> dict[str, Table]:
    return {table.name: table for table in make_tables(prepared.run)}


def test_rows_and_columns_of_tables_are_chosen(reference: Prepared) -> None:
    tables = tables_by_name(reference)
    chosen = Selection.of(
        reference.grid, variants=["V", "R"], frameworks=["jax"], modes=["train"], lengths=[512]
    )
    ratios = chosen.of_table(tables["ratios"])
    assert [row[:3] for row in ratios.rows] == [
        ("jax", "train", "V (A/A twin)"), ("jax", "train", "R"),
    ]  # fmt: skip
    assert [column.name for column in ratios.columns[3:]] == [
        "L=512 speed vs V", "L=512 low", "L=512 high", "L=512 verdict",
    ]  # fmt: skip
    whole = value(tables["ratios"], "L=512 low", framework="jax", mode="train", variant="R")
    assert ratios.rows[1][4] == whole
    train = chosen.of_table(tables["train"])
    assert [row[0] for row in train.rows] == ["V", "R"]
    assert not [column for column in train.columns if column.group == "torch"]
    assert [row[:3] for row in chosen.of_table(tables["noise"]).rows] == [("jax", "train", 512)]
    assert Selection().of_table(tables["phases"]) == tables["phases"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"variants": ["linfromer"]}, "variant of this run 'linfromer' not known. Did you mean"),
        ({"frameworks": ["tf"]}, "framework of this run 'tf' not known. Known: jax, torch"),
        ({"modes": ["eval"]}, "mode of this run 'eval' not known. Known: forward, train"),
    ],
)
def test_a_name_that_the_run_does_not_have_is_refused(
    reference: Prepared, wrong: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        Selection.of(reference.grid, **wrong)  # type: ignore[arg-type]
    with pytest.raises(NotationError, match="length 300 is not in this run; it has 128, 256, 512"):
        Selection.of(reference.grid, lengths=[300])


def test_the_least_noise_is_sorted_first() -> None:
    """At length 64 rounds differ by a fifth of a percent, at 128 by twice as much."""
    found = [
        record(cell("V", "torch", "train", length, replica=replica),
               0.01 * (1 + n * replica * length / 64 * 0.002), round=n)
        for length in (128, 64) for n in range(3) for replica in (0, 1)
    ]  # fmt: skip
    (table,) = [one for one in make_tables(run_of(found)) if one.name == "noise"]
    at = [one.name for one in table.columns].index("noise floor")
    for heading in ("noise floor", "margin"):
        floors = [row[at] for row in sorted_tables([table], heading)[0].rows]
        assert floors == sorted(floors) and len(set(floors)) == 2


def test_of_trainings_the_metric_says_which_are_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """A higher accuracy and fewer bits per byte are better; the rows of a task stay together."""
    declare(monkeypatch)
    records = list(learning_records(("mqar", "language_model")))
    made = {table.name: table for table in make_tables(run_of(records))}
    for name, heading in (
        ("quality", "equal steps mean"),
        ("quality", "equal steps difference low"),
        ("quality_frameworks", "torch mean"),
        ("learning_curves", "mean"),
    ):
        (table,) = sorted_tables([made[name]], heading)
        columns = [one.name for one in table.columns]
        tasks = [row[columns.index("task")] for row in made[name].rows]
        rows = [(row[columns.index("task")], row[columns.index(heading)]) for row in table.rows]
        assert [task for task, _ in rows] == tasks
        for task, is_higher in (("mqar", True), ("language_model", False)):
            numbers = [one for of, one in rows if of == task and not isinstance(one, str)]
            assert numbers == sorted(numbers, reverse=is_higher) and len(set(numbers)) > 2


def test_rows_are_sorted_the_best_first_and_words_last(reference: Prepared) -> None:
    tables = tables_by_name(reference)
    (memory,) = sorted_tables([tables["memory"]], "L=512 MB")
    column = [one.name for one in memory.columns].index("L=512 MB")
    values = [row[column] for row in memory.rows]
    assert values == sorted(values)  # less memory is better
    (ratios,) = sorted_tables([tables["ratios"]], "L=512 speed vs V")
    column = [one.name for one in ratios.columns].index("L=512 speed vs V")
    values = [row[column] for row in ratios.rows]
    assert values == sorted(values, reverse=True)
    made = {table.name: table for table in make_tables(run_of(list(all_records())))}
    (train,) = sorted_tables([made["train"]], "torch MB")
    missing = [isinstance(row[-1], str) for row in train.rows]
    shown = [row[[one.name for one in train.columns].index("torch MB")] for row in train.rows]
    missing = [isinstance(one, str) for one in shown]
    assert any(missing)
    assert missing == sorted(missing)
    with pytest.raises(UnknownNameError, match="column 'speed' not known"):
        sorted_tables([tables["ratios"]], "speed")
    unsorted = sorted_tables([tables["memory"], tables["parity"]], "L=512 MB")[1]
    assert unsorted == tables["parity"]
