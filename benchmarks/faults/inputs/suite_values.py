"""Suite files whose keys or values are not allowed."""

from __future__ import annotations

from benchmarks.faults.case import Case

BASE = {
    "axes": "{variant: [V, R], framework: [torch], mode: [forward], seq_len: [8]}",
    "model": "{kind: mixer, d_model: 8, heads: 2}",
    "measure": "{ceiling: false}",
}

# Key at the top -> values in YAML that are refused.
VALUES: dict[str, tuple[str, ...]] = {
    "axes": (
        "null", "3", "[]", "{}", "text", "{variant: [V]}", "{seq_len: [8]}",
        "{variant: [], seq_len: [8]}", "{variant: V, seq_len: [8]}", "{variant: [V], seq_len: 8}",
        "{variant: [3], seq_len: [8]}", "{variant: [null], seq_len: [8]}",
        "{variant: [[V]], seq_len: [8]}", "{variant: [V], seq_len: []}",
        "{variant: [V], seq_len: [0]}", "{variant: [V], seq_len: [-8]}",
        "{variant: [V], seq_len: [8.5]}", "{variant: [V], seq_len: ['8']}",
        "{variant: [V], seq_len: [true]}", "{variant: [V], seq_len: [.nan]}",
        "{variant: [V], seq_len: [8], framework: [trch]}",
        "{variant: [V], seq_len: [8], framework: []}",
        "{variant: [V], seq_len: [8], mode: [backward]}",
        "{variant: [V], seq_len: [8], batch: [0]}",
        "{variant: [V], seq_len: [8], dtype: [float8]}",
        "{variant: [V], seq_len: [8], form: [fast]}",
        "{variant: [V], seq_len: [8], compile: [jit]}",
        "{variant: [V], seq_len: [8], compile: jit}",
        "{variant: [V], seq_len: [8], task: [nonsense]}",
        "{variant: [V], seq_len: [8], heads: [0]}",
        "{variant: [V], seq_len: [8], heads: [three]}",
        "{variant: [V], seq_len: [8], kind: [robot]}",
        "{variant: [V], seq_len: [8], nonsense: [1]}",
        "{variant: ['FR(rank=[])'], seq_len: [8]}",
        "{variant: ['FR(rank=[8, 0])'], seq_len: [8]}",
        "{variant: ['nonsense'], seq_len: [8]}",
        "{variant: ['V+linformer'], seq_len: [8]}",
        "{variant: [V], seq_len: [8], framework: [jax], compile: [eager]}",
        "{variant: [V], seq_len: [8], dtype: [float16], framework: [torch]}",
    ),
    "model": (
        "null", "3", "[]", "{}", "text", "{d_model: 8}", "{heads: 2}", "{d_model: 0, heads: 2}",
        "{d_model: 8, heads: 3}", "{d_model: -8, heads: 2}", "{d_model: 8.0, heads: 2}",
        "{d_model: '8', heads: 2}", "{d_model: true, heads: 2}", "{d_model: .inf, heads: 2}",
        "{d_model: 8, heads: 2, kind: robot}", "{d_model: 8, heads: 2, kind: encoder}",
        "{d_model: 8, heads: 2, kind: classifier, vocabulary: 11}",
        "{d_model: 8, heads: 2, kind: encoder_decoder, vocabulary: 11}",
        "{d_model: 8, heads: 2, max_len: 4}", "{d_model: 8, heads: 2, max_len: 0}",
        "{d_model: 8, heads: 2, norm: batch}", "{d_model: 8, heads: 2, positions: rotary}",
        "{d_model: 8, heads: 2, bias: 3}", "{d_model: 8, heads: 2, layers: 0}",
        "{d_model: 8, heads: 2, nonsense: 1}", "{preset: t6_base}", "{preset: 3}",
        "{d_model: 8, heads: 2, mixers: 3}", "{d_model: 8, heads: 2, mixers: {V: 3}}",
        "{d_model: 8, heads: 2, mixers: {nonsense: {heads: 2}}}",
        "{d_model: 8, heads: 2, mixers: {V: {heads: 0}}}",
    ),
    "measure": (
        "3", "[]", "text", "{rounds: 0}", "{rounds: -1}", "{rounds: 1.5}",
        "{rounds: 99999999}", "{rounds: two}", "{min_samples: 0}", "{min_seconds: 0}",
        "{min_seconds: -1}", "{min_seconds: .nan}", "{max_seconds: .inf}", "{max_seconds: many}",
        "{precision: 0}", "{precision: 1}", "{precision: .nan}", "{timeout_seconds: 0}",
        "{timeout_seconds: -.inf}", "{timeout_seconds: [60]}", "{memory_limit_gb: 0}",
        "{memory_limit_gb: -4}", "{memory_limit_gb: .inf}", "{memory_limit_gb: 4 GB}",
        "{threads: 0}", "{threads: 1.5}", "{threads: all}", "{parity: maybe}", "{parity: 1}",
        "{ceiling: 0}", "{force: null}", "{seed: -1}", "{seed: 1.5}", "{aa: 2}", "{nonsense: 1}",
    ),
    "models": ("3", "[]", "{a: {}}", "{a: {d_model: 8, heads: 2}}", "{a: 3}"),
    "tasks": ("3", "[]", "{nonsense: {}}", "{cost: 3}", "{cost: {nonsense: 1}}"),
    "devices": ("3", "[]", "{npu: {}}", "{cpu: 3}", "{cpu: {nonsense: 1}}",
                "{cpu: {axes: {seq_len: [0]}}}"),
    "baseline": ("3", "null", "nonsense", "''", "[V]", "'V+linformer'"),
    "margin": ("0", "1", "-1", ".nan", ".inf", "wide", "null", "[0.1]"),
    "description": ("3", "[a]", "{a: b}"),
    "mesure": ("{rounds: 2}",),
}  # fmt: skip

SUITE_VALUES = [
    Case(
        "suite value", f"{key}: {value}",
        ("run", "--suite", "wrong.yaml", "--device", "cpu", "--dry-run"),
        {"wrong.yaml": "".join(f"{k}: {v}\n" for k, v in {**BASE, key: value}.items())},
        lines=8,
    )
    for key, values in VALUES.items()
    for value in values
]  # fmt: skip
