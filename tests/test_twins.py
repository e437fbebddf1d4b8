"""backends/torch and backends/jax read alike: the same files, functions, order and parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

BACKENDS = Path(__file__).resolve().parents[1] / "synthbench" / "backends"
TWINS = ("torch", "jax")
PREFIXES = ("Torch", "Jax")  # TorchStep and JaxStep are one name
CALL = {"forward": "__call__"}  # how a module is called in torch, and in flax
# JAX has no counterpart: a program runs on the device of its arrays, which `load` places.
TORCH_ONLY_PARAMETER = "device"

ONE_SIDED = {
    "jax/mixers/cudnn.py": "PyTorch calls cuDNN's attention through a function of its own",
    "jax/decoding_programs.py": "torch decodes without compiling, position by position",
    "jax/kept_program.py": "PyTorch runs eagerly, and what torch.compile makes cannot be kept",
    "jax/loop_counts.py": "a loop is one operation of a jaxpr; in torch every iteration runs",
    "torch/cuda_graph.py": "XLA records CUDA graphs by itself",
    "torch/cpu_matmul.py": "only PyTorch has two libraries for matrix products on a CPU",
    "torch/flop_formulas.py": "for torch's own counter, which has no counterpart in JAX",
    "torch/prediction.py": "XLA plans the memory of a program when it compiles it",
    "torch/parallel_training.py": "torch has a process for each device, JAX one for all",
    "torch/replica.py": "torch has a process for each device, JAX one for all",
    "torch/replica_process.py": "torch has a process for each device, JAX one for all",
    "torch/mixers/block_logits.py": "JAX's terms.py has the logits of a block",
    "torch/mixers/compiled.py": "JAX compiles everything",
    "torch/mixers/flash.py": "PyTorch's fused attention is for CPUs too",
    "torch/mixers/flex.py": "JAX has no attention with logits of one's own",
    "torch/mixers/window_product.py": "XLA's convolution takes the kernel as it is",
    "torch/mixers/weight_cache.py": "a compiled JAX program cannot keep values between calls",
}

# "file" (nothing in it is compared), or "file: what differs", each with the reason.
UNAVOIDABLE = {
    "contractions.py": "one function per ATen operation, and one per JAX primitive",
    "decode_step.py": "a step calls a module in torch, and a program of arrays in JAX",
    "flops.py": "torch is traced by fvcore or counted while it runs; a jaxpr is walked",
    "parallel.py": "torch has a process for each device, JAX one for all",
    "parallel_step.py": "torch has a process for each device, JAX one for all",
    "private_api.py": "each framework has its own private API",
    "mixers/blocks.py": "torch has a list of blocks, JAX counts iterations of a loop",
    "mixers/blockwise.py": "torch loops over blocks in Python, JAX within one program",
    "mixers/features.py": "JAX takes all components as terms of one loop",
    "mixers/fused_attention.py": "each framework has other attention kernels",
    "mixers/head_convolution.py": "XLA fuses sums of shifts of any width, eager torch does not",
    "mixers/terms.py": "a term is a function in torch, and a pytree of arrays in JAX",
    "memory.py: parameters of plan": "torch runs the step, XLA has analysed the program",
    "microbenchmarks.py: parameters of Operation.__init__": "JAX compiles, and donates an array",
    "mixers/attention.py: only in jax: plain_if_trained": "JAX knows in the "
    "backward pass only that gradients are needed",
    "model.py: parameters of build_mixer": "torch modules are created on a device",
    "module.py: only in torch: device_name, from_array, named_tensors": "PyTorch shares memory "
    "with NumPy, and its tensors know their device while a model runs",
    "module.py: only in jax: Constant, split, named_parameters, name_of": "flax splits a "
    "module into its structure and a state",
    "module.py: parameters of Declared.__init__": "torch modules are created on a device",
    "module.py: parameters of MixerModule.__init__": "torch modules are created on a device",
    "module.py: parameters of load": "JAX places values as it loads them",
    "precision.py: parameters of full_precision": "torch has one setting per process, JAX one "
    "per block of code, which also enables float64",
    "placement.py: only in torch: found_devices, synchronize, reset_peak": "JAX waits for arrays, "
    "cannot reset a peak, and names its devices itself",
    "placement.py: only in jax: platform, compute_capability": "JAX traces without knowing the "
    "device",
    "training.py: only in torch: Sums, Trainer.to_device, clip": "optax clips, and torch's "
    "processes add up losses and weights by name",
    "training.py: only in jax: Trainer.computing, Trainer.outputs, Trainer.like, "
    "Trainer.on_device, Trainer.on_first_device, Trainer.placed": "a "
    "program of arrays, which are placed on a mesh of devices",
    "training.py: parameters of adamw": "an optimizer owns its parameters in torch, not in optax",
    "training.py: parameters of Trainer.__init__": "one JAX process works on all devices",
    "training.py: parameters of Trainer.whole_batch": "torch adds up over processes",
    "step.py: only in torch: Step.cached_bytes, Step.compiled_function, Step.step, Step.run, "
    "Step.whole_batch, compiled": "only torch keeps weights between calls, torch.compile wraps a "
    "module, and each process does its own part of a step",
    "step.py: only in jax: is_on_cpu, initial_state, program": "XLA compiles a function of "
    "arrays, which may be on any device, and optax one per shape for zeros",
    "model.py: only in jax: output_check": "torch checks outputs by hooks, JAX while it traces",
    "precision.py: only in jax: compiler_options": "XLA compiles quickly for a check",
    "step.py: parameters of adam": "an optimizer owns its parameters in torch, not in optax",
    "mixers/convolutional.py: parameters of first_convolution": "eager torch multiplies windows in "
    "the fused form",
    "mixers/light_conv.py: parameters of kernels": "in JAX only the width of a filter decides",
    "mixers/dynamic_conv.py: only in torch: kernels, banded_products, shifted_products": "JAX has "
    "those of light_conv.py",
    "mixers/light_conv.py: parameters of output": "torch has two libraries for products",
    "mixers/numerics.py: parameters of ForwardInputs.__init__": "torch has two libraries for "
    "products",
    "mixers/numerics.py: parameters of project": "torch has two libraries for products",
    "mixers/numerics.py: parameters of affine": "torch has two libraries for products",
    "mixers/numerics.py: only in torch: require_first_gradients, has_heads_first, weighted, "
    "record_kernel": "JAX differentiates a backward pass as well, XLA chooses the order in memory, "
    "and torch.compile cannot trace a recording",
    "mixers/numerics.py: only in jax: ForwardInputs.project_heads_first, project_heads_first, "
    "side_by_side_windows": "XLA transposes an array where torch has a view",
}


def twins() -> list[str]:
    """The files of the same name in both back ends."""
    torch, jax = ({str(p.relative_to(BACKENDS / own)) for p in files(own)} for own in TWINS)
    return sorted(torch & jax)


def files(own: str) -> Iterator[Path]:
    return (BACKENDS / own).rglob("*.py")


def signatures(path: Path) -> dict[str, list[str]]:
    """Public functions, classes and methods in order, with their parameter names."""
    tree = ast.parse(path.read_text())
    found: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and public(node.name):
            found[node.name] = parameters(node)
        elif isinstance(node, ast.ClassDef) and public(node.name):
            name = node.name
            for prefix in PREFIXES:
                name = name.removeprefix(prefix)
            found[name] = []
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and public(method.name):
                    found[f"{name}.{CALL.get(method.name, method.name)}"] = parameters(method)
    return found


def exported(path: Path) -> dict[str, list[str]]:
    """The functions in `__all__` that another file defines, with their parameter names."""
    body = ast.parse(path.read_text()).body
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = set(ast.literal_eval(node.value))
    found = {}
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module:
            source = BACKENDS.parents[1] / (node.module.replace(".", "/") + ".py")
            imported = {alias.name for alias in node.names} & names
            found.update({name: signatures(source)[name] for name in imported})
    return found


def public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    names = [each.arg for each in every]
    names += [f"*{each.arg}" for each in (arguments.vararg,) if each]
    names += [f"**{each.arg}" for each in (arguments.kwarg,) if each]
    return names


def differences(torch: Path, jax: Path) -> dict[str, str]:
    """What differs between two files -> the details."""
    defined = [signatures(path) for path in (torch, jax)]
    ours, theirs = (signatures(path) | exported(path) for path in (torch, jax))
    found: dict[str, str] = {}
    for own, names, others in (("torch", ours, theirs), ("jax", theirs, ours)):
        alone = [name for name in names if name not in others]
        if alone:
            found[f"only in {own}: {', '.join(alone)}"] = ""
    for name in ours.keys() & theirs.keys():
        mine = [p for p in ours[name] if p != TORCH_ONLY_PARAMETER or p in theirs[name]]
        if mine != theirs[name]:
            details = f"torch has ({', '.join(mine)}), jax has ({', '.join(theirs[name])})"
            found[f"parameters of {name}"] = details
    orders = [[name for name in each if name in other] for each, other in (defined, defined[::-1])]
    for mine_here, theirs_here in zip(*orders, strict=True):
        if mine_here != theirs_here:
            found["order"] = f"torch has {mine_here} where jax has {theirs_here}"
            break
    return found


def test_each_file_has_a_twin_or_a_reason() -> None:
    names = {own: {str(p.relative_to(BACKENDS / own)) for p in files(own)} for own in TWINS}
    one_sided = {
        f"{own}/{name}" for own, other in (TWINS, TWINS[::-1]) for name in names[own] - names[other]
    }
    missing = sorted(one_sided - ONE_SIDED.keys())
    assert not missing, f"without a file of the same name in the other back end: {missing}"
    stale = sorted(ONE_SIDED.keys() - one_sided)
    assert not stale, f"ONE_SIDED lists files that are gone, or that have a twin: {stale}"


def test_twins_have_the_same_functions_in_the_same_order() -> None:
    found: dict[str, str] = {}
    for name in twins():
        torch, jax = (BACKENDS / own / name for own in TWINS)
        found |= {f"{name}: {what}": text for what, text in differences(torch, jax).items()}
    unexplained = [
        f"{what} ({text})" if text else what
        for what, text in found.items()
        if what not in UNAVOIDABLE and what.partition(":")[0] not in UNAVOIDABLE
    ]
    assert not unexplained, "backends/torch and backends/jax differ:\n" + "\n".join(unexplained)
    used = found.keys() | {what.partition(":")[0] for what in found}
    stale = sorted(UNAVOIDABLE.keys() - used)
    assert not stale, f"UNAVOIDABLE lists what does not differ: {stale}"


@pytest.mark.parametrize("own", TWINS)
def test_a_back_end_has_the_functions_of_the_protocol(own: str) -> None:
    protocol = {
        name.partition(".")[2]: [each for each in names if each != "self"]
        for name, names in signatures(BACKENDS / "base.py").items()
        if name.startswith("Backend.")
    }
    path = BACKENDS / own / "backend.py"
    offered = signatures(path) | exported(path)
    for name, names in protocol.items():
        assert offered.get(name) == names, f"backends/{own}/backend.py: {name}"


def test_a_difference_is_named(tmp_path: Path) -> None:
    torch, jax = tmp_path / "torch.py", tmp_path / "jax.py"
    torch.write_text(
        "def first(x, device): ...\ndef second(a): ...\ndef _private(): ...\n"
        "class TorchStep:\n    def forward(self, x): ...\n    def extra(self): ...\n"
    )
    jax.write_text(
        "def second(b): ...\ndef first(x): ...\nclass JaxStep:\n    def __call__(self, x): ...\n"
    )
    assert differences(torch, jax) == {
        "only in torch: Step.extra": "",
        "parameters of second": "torch has (a), jax has (b)",
        "order": "torch has first where jax has second",
    }
