"""The claims of the paper as data: each is well formed, and is what the printed numbers say."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from synthbench.errors import NotationError
from synthbench.mixers.notation import canonical
from synthbench.report.paper import published
from synthbench.report.paper.check.answer import band
from synthbench.report.paper.check.question import Question, questions
from synthbench.report.paper.claims import DIRECTIONS, Claim, parse_claims, read_claims
from synthbench.report.paper.formulas import TABLE_1
from synthbench.tasks.catalog import TASK_REGISTRY
from synthbench.tasks.common_metrics import COMMON_METRICS

CLAIMS = read_claims()
QUESTIONS = questions(CLAIMS)
TEXT = (resources.files("synthbench.report.paper") / "claims.yaml").read_text(encoding="utf-8")
FIGURES = ("figure3",)  # of the paper, which have no numbers
TASKS = {  # that this project has or will have
    "language_model", "span_corruption", "classification", "translation", "summarization",
}  # fmt: skip
# What must be among the claims: table, the two rows, and what the first is.
REQUIRED = [
    ("table4.steps_per_sec", "R", "V", "higher"),
    ("table4.steps_per_sec", "R", "dynamic_conv", "higher"),
    ("table4.log_ppl", "R", "dynamic_conv", "lower"),
    ("table4.log_ppl", "R+V", "V", "lower"),
    ("table4.log_ppl", "D+V", "V", "lower"),
    ("table2.nmt_ende_bleu", "R+V", "V", "higher"),
    ("table2.lm1b_ppl", "D+V", "V", "lower"),
    ("table5.glue", "R+V", "V (T5 base)", "higher"),
    ("table2.nmt_ende_bleu", "Fix", "R", "lower"),
    ("table2.nmt_ende_bleu", "FR", "R", "same"),
    ("table2.nmt_params_millions", "FR", "R", "difference"),
    ("table7.agnews_accuracy", "FR(rank=32)+V", "V", "higher"),
    ("table7.imdb_accuracy", "FR(rank=32)+V", "linformer(rank=32)", "higher"),
    ("table9.ende_bleu", "R, 32 heads", "R, 2 heads", "higher"),
    ("figure3.spread", "D", "V", "different"),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: f"{one.key}: {one.rows}")
def test_each_claim_has_a_source_and_variants(question: Question) -> None:
    claim = question.claim
    table, _, heading = claim.column.partition(".")
    if table not in FIGURES:
        known = list(TABLE_1) if table == "table1" else list(published.rows_of(table))
        assert {side.row for side in question.sides} <= set(known)
    if table in published.TABLES:
        assert all(float(question.text(side)) > 0 for side in question.sides)
        assert heading in published.published(table)[0]
    assert all(canonical(side.variant) == side.variant for side in question.sides)
    assert re.fullmatch(r"[A-Z].*\.", claim.says)
    assert re.fullmatch(r"(Table|Figure) \d(, abstract)?", claim.source)


@pytest.mark.parametrize(
    "question",
    [one for one in QUESTIONS if one.claim.table in published.TABLES and one.other],
    ids=lambda one: f"{one.key}: {one.rows}",
)
def test_each_claim_is_what_the_printed_numbers_say(question: Question) -> None:
    assert question.other is not None
    one, other = question.printed(question.one), question.printed(question.other)
    if question.claim.expect in DIRECTIONS:
        assert (one > other) == (question.claim.expect == "higher")
    if question.claim.expect != "difference":
        least, most = band(question)
        assert least <= one / other <= most


@pytest.mark.parametrize(("column", "one", "other", "expect"), REQUIRED)
def test_the_papers_main_claims_are_there(column: str, one: str, other: str, expect: str) -> None:
    found = [
        question
        for question in QUESTIONS
        if question.claim.column == column
        and [side.row for side in question.sides] == [one, other]
        and question.claim.expect == expect
    ]
    assert found


def test_every_kind_of_quantity_is_claimed() -> None:
    kinds = {one.column.quantity for one in QUESTIONS}
    assert kinds == {"speed", "parameters", "formula", "flops", "quality", "weights"}


def test_columns_name_metrics_that_their_tasks_have() -> None:
    tasks = TASK_REGISTRY.known()
    for name, column in CLAIMS.columns.items():
        assert set(column.tasks) <= TASKS, name
        assert not column.tasks or column.quantity in ("quality", "weights"), name
        for task, metric in column.tasks.items():
            if task in tasks:
                assert metric in tasks[task].metrics or metric in COMMON_METRICS, name


def test_every_column_of_quality_has_a_published_file() -> None:
    for name in CLAIMS.columns:
        table, _, heading = name.partition(".")
        if table in published.TABLES:
            assert heading in published.published(table)[0]


def test_the_speed_ratios_are_the_published_ones() -> None:
    ratios = {
        one.rows: one.printed(one.one) / one.printed(one.other)
        for one in QUESTIONS
        if one.claim.column == "table4.steps_per_sec" and one.other
    }
    assert ratios["R / V"] == pytest.approx(1.09, abs=0.005)
    assert ratios["R / dynamic_conv"] == pytest.approx(1.61, abs=0.005)


# --- a wrong file -------------------------------------------------------------------------------

SMALL = """
settings:
  small: {model: t5_base, seq_len: 512}
columns:
  table4.steps_per_sec: {label: steps/s, quantity: speed, setting: small}
claims:
  fast:
    says: It is fast.
    column: table4.steps_per_sec
    compare: [[R, V]]
    expect: higher
"""


def test_a_small_file_is_read() -> None:
    found = parse_claims(SMALL, "small.yaml")
    assert found.claims["fast"] == Claim(
        says="It is fast.", column="table4.steps_per_sec", compare=(("R", "V"),), expect="higher"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("says: It is fast.", "say: It is fast.", "claims.fast.says: field required"),
        ("says: It is fast.", "says: ''", "claims.fast.says: got '', string should have at least"),
        ("expect: higher", "expect: better", "claims.fast.expect: got 'better', input should be"),
        ("expect: higher", "expect: higher\n    by: 0.9", "claims.fast.by: got 0.9, input should"),
        ("expect: higher", "expect: higher\n    within: 1", "claims.fast.within: expect: higher "
         "takes no within"),
        ("expect: higher", "expect: ratio", "claims.fast.within: expect: ratio needs within"),
        ("expect: higher", "expect: same\n    within: .1\n    by: 2", "claims.fast.by: expect: "
         "same takes no by"),
        ("expect: higher", "expect: value", "claims.fast.compare: ['R', 'V'] has 2 rows; expect: "
         "value needs 1"),
        ("[[R, V]]", "[[R]]", "claims.fast.compare: ['R'] has 1 rows; expect: higher needs 2"),
        ("[[R, V]]", "[]", "claims.fast.compare: got [], tuple should have at least 1"),
        ("[[R, V]]", "[[R, W]]", "claims.fast.compare: row of table4 'W' not known"),
        ("column: table4.s", "column: table4.S", "claims.fast.column: column "
         "'table4.Steps_per_sec' not known. Did you mean table4.steps_per_sec?"),
        ("  table4.steps_per_sec: {", "  table4.steps: {", "columns.table4.steps: column 'steps' "
         "not known"),
        ("setting: small", "setting: smal", "columns.table4.steps_per_sec.setting: setting 'smal' "
         "not known. Did you mean small?"),
        ("quantity: speed", "quantity: haste", "columns.table4.steps_per_sec.quantity: got "
         "'haste', input should be"),
        ("model: t5_base", "model: t6", "settings.small.model: preset 't6' not known"),
        ("seq_len: 512", "seq_len: 0", "settings.small.seq_len: got 0, input should be greater"),
        ("claims:", "claim:", "claims: field required"),
        ("says: It", "says: It\n    says: It", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_file_and_key(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(NotationError) as refused:
        parse_claims(SMALL.replace(old, new, 1), "small.yaml")
    text = str(refused.value)
    assert text.startswith(f"small.yaml: {message}")
    assert "\n" not in text or "not valid YAML" in text


def test_a_wrong_variant_in_a_figure_is_refused() -> None:
    text = SMALL.replace("table4.steps_per_sec", "figure3.spread").replace("[[R, V]]", "[[R, W]]")
    with pytest.raises(NotationError, match=r"small.yaml: claims.fast.compare: .*'W' not known"):
        parse_claims(text, "small.yaml")


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(NotationError, match=r"^small.yaml: the top: got None, input should be"):
        parse_claims("", "small.yaml")


def test_printed_numbers_stand_in_the_tables_alone() -> None:
    """The claims refer to columns; a number that is repeated could differ from the table."""
    assert not re.search(r"\b(4\.26|2\.65|1\.972|2\.040|28\.47|292)\b", TEXT)
