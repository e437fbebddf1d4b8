"""The score: how many mutants pytest kills, and why the others survive."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.mutants.running import KILLED, SURVIVED, TIMED_OUT, Result
from tests.mutants.sampling import PACKAGES

WANTED = 0.9  # share of the sample that pytest has to kill
SAMPLE = 300


def read_reasons(file: Path) -> dict[str, str]:
    """Why mutants survive: key -> reason, from the table `survivors` of a TOML file."""
    with file.open("rb") as stream:
        return dict(tomllib.load(stream).get("survivors", {}))


def make_score(
    results: Iterable[Result], reasons: Mapping[str, str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """The committed form; `about` says what was run (commit, seed, mutants in all, versions)."""
    results = sorted(results, key=lambda result: result.mutant)
    survivors = [
        {
            "mutant": result.mutant,
            "line": result.line,
            "diff": result.diff,
            "tests_left": result.left,
            "reason": reasons.get(result.mutant, ""),
        }
        for result in results
        if result.outcome == SURVIVED
    ]
    return {
        **about,
        "sample": len(results),
        "killed": sum(result.outcome == KILLED for result in results),
        "timeout": sum(result.outcome == TIMED_OUT for result in results),
        "survived": len(survivors),
        "packages": {p: _counts(p, results) for p in PACKAGES if _counts(p, results)["sample"]},
        "survivors": survivors,
    }


def _counts(package: str, results: Iterable[Result]) -> dict[str, int]:
    own = [r for r in results if r.mutant.partition("::")[0].rpartition("/")[0] == package]
    return {"sample": len(own), "killed": sum(r.outcome != SURVIVED for r in own)}


def share(score: Mapping[str, Any]) -> float:
    """The share that is killed; a mutant whose tests do not end is noticed too."""
    return (score["killed"] + score["timeout"]) / score["sample"]


def with_reasons(score: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """The score with these reasons, by the key of the mutant; empty where there is none."""
    survivors = [s | {"reason": reasons.get(s["mutant"], "")} for s in score["survivors"]]
    return {**score, "survivors": survivors}


def problems(score: Mapping[str, Any]) -> list[str]:
    """What is wrong with a score: one sentence each; empty if it may be committed."""
    found = []
    sample, survivors = score["sample"], score["survivors"]
    if sample < SAMPLE:
        found.append(f"{sample} mutants were run; at least {SAMPLE} are needed")
    if score["killed"] + score["timeout"] + score["survived"] != sample:
        found.append("killed, timeout and survived do not add up to the sample")
    if len(survivors) != score["survived"]:
        found.append(f"{len(survivors)} survivors are listed; {score['survived']} are counted")
    by_package = score["packages"].values()
    for name, total in (("sample", sample), ("killed", sample - score["survived"])):
        if sum(counts[name] for counts in by_package) != total:
            found.append(f"{name} of the packages does not add up to {total}")
    if sample and share(score) < WANTED:
        found.append(f"{share(score):.1%} are killed; at least {WANTED:.0%} are needed")
    found += [f"{s['mutant']} has no reason" for s in survivors if not s["reason"].strip()]
    return found


def describe(score: Mapping[str, Any]) -> str:
    """What is printed at the end: the score, then each survivor with its change and reason."""
    lines = [
        f"{score['killed']} of {score['sample']} mutants killed, {score['timeout']} timed out, "
        f"{score['survived']} survived: {share(score):.1%}" if score["sample"] else "no mutant"
    ]  # fmt: skip
    lines += [f"  {p}: {c['killed']} of {c['sample']}" for p, c in score["packages"].items()]
    for survivor in score["survivors"]:
        path, _, rest = survivor["mutant"].partition("::")
        lines += ["", f"{path}:{survivor['line']}  {rest}", *(f"    {d}" for d in survivor["diff"])]
        if survivor["tests_left"]:
            lines.append(f"    {survivor['tests_left']} tests were not run: no time left")
        lines.append(f"    reason: {survivor['reason'] or 'none given in reasons.toml'}")
    return "\n".join(lines)
