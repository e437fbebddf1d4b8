"""synthbench: what a replacement of self-attention costs, in PyTorch and in JAX.

    import synthbench

    parameters = synthbench.initialize("FR(rank=32)+V", d_model=512, heads=8, max_len=256)
    y = synthbench.apply("FR(rank=32)+V", parameters, x, heads=8, max_len=256, framework="jax")
    synthbench.cost("FR(rank=32)+V", batch=1, seq_len=256, d_model=512, heads=8, max_len=256)

A baseline of your own is one subclass of `synthbench.Mixer`: see docs/adding_a_mixer.md.
"""

from synthbench.api import apply, cost, initialize, load_results, register
from synthbench.errors import ShapeError, SynthbenchError, UnsupportedError
from synthbench.mixers.base import Cost, Mixer, Parameter, Sizes
from synthbench.mixers.initializers import Constant, Normal, Uniform, xavier

__version__ = "0.1.0"

__all__ = [
    "Constant",
    "Cost",
    "Mixer",
    "Normal",
    "Parameter",
    "ShapeError",
    "Sizes",
    "SynthbenchError",
    "Uniform",
    "UnsupportedError",
    "apply",
    "cost",
    "initialize",
    "load_results",
    "register",
    "xavier",
]
