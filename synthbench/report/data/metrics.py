"""Every metric that tables show, by name."""

from __future__ import annotations

from synthbench.metrics import Metric, hundredths, percent, scientific, si, significant, whole

# The key is the column of the frame (report/data/frame.py), or the name of a figure that a table
# derives.
METRICS: dict[str, Metric] = {
    "steps_per_second": Metric("steps/s", "1/s", "higher", significant),
    "half_width_percent": Metric("±%", "%", "lower", percent),
    "utilisation": Metric("util %", "%", "higher", percent, scale=100),
    "break_even_steps": Metric("break-even", "steps", "lower", whole),
    "ratio": Metric("ratio", "1", "higher", significant),
    "exponent": Metric("exponent", "1", "neither", hundredths),
    "length": Metric("length", "1", "neither", significant),
    "peak_bytes": Metric("MB", "10^6 bytes", "lower", significant, scale=1e-6),
    "parameter_bytes": Metric("parameters", "10^6 bytes", "lower", significant, scale=1e-6),
    "optimizer_bytes": Metric("optimizer", "10^6 bytes", "lower", significant, scale=1e-6),
    "batch_bytes": Metric("batch", "10^6 bytes", "lower", significant, scale=1e-6),
    "activation_bytes": Metric("activations", "10^6 bytes", "lower", significant, scale=1e-6),
    "predicted_bytes": Metric("predicted", "10^6 bytes", "lower", significant, scale=1e-6),
    "share": Metric("share", "1", "neither", significant),
    "parameters": Metric("parameters", "1", "lower", si),
    "exact_count": Metric("count", "1", "lower", whole),
    "flops": Metric("FLOPs", "1", "lower", si),
    "build_seconds": Metric("build", "ms", "lower", significant, scale=1e3),
    "compile_seconds": Metric("compile", "ms", "lower", significant, scale=1e3),
    "first_step_seconds": Metric("first step", "ms", "lower", significant, scale=1e3),
    "median_seconds": Metric("steady", "ms", "lower", significant, scale=1e3),
    "relative_error": Metric("error", "1", "lower", scientific),
}
