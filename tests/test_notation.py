"""The notation of variants: read and written without loss, and mistakes named where they stand."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synthbench.errors import NotationError, ShapeError, SynthbenchError, UnknownNameError
from synthbench.mixers import catalog
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.component import Component
from synthbench.mixers.notation import canonical, format_mixer, parse
from synthbench.mixers.sizes import Sizes
from synthbench.run.extensions import register
from tests.variants import VARIANTS

COUNT = st.integers(1, 1000)
CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "rank": COUNT,
    "width": COUNT,
    "first": COUNT,
    "second": COUNT,
    "a": st.none() | COUNT,
    "b": st.none() | COUNT,
    "hidden": st.sampled_from(["shared", "separate"]),
    "init": st.sampled_from(["normal", "mesh"]),
    "layout": st.sampled_from(["paper", "mesh"]),
    "tie_query": st.booleans(),
    "bias": st.booleans(),
    "mixing": st.sampled_from(["softmax", "layer", "sum"]),
}
SHARING = {"dense": ["per_head", "heads", "full"], "linformer": ["none", "kv"]}


@st.composite
def parts(draw: st.DrawFn, cls: type[Any]) -> Any:
    """A component or a whole mixer with random options."""
    options = {}
    for field in fields(cls):
        sharing = st.sampled_from(SHARING.get(cls.name, []))
        options[field.name] = draw(CHOICES.get(field.name, sharing))
    if options.get("sharing") == "full":
        options["tie_query"] = False
    return cls(**options)


@st.composite
def mixtures(draw: st.DrawFn) -> Attention:
    """A random mixture of one component or more."""
    classes = draw(st.lists(st.sampled_from(list(catalog.COMPONENTS.values())), min_size=1,
                            unique=True))  # fmt: skip
    components = tuple(draw(parts(cls)) for cls in classes)
    return Attention(components, draw(CHOICES["mixing"]), draw(CHOICES["bias"]))


MIXERS = mixtures() | st.sampled_from(list(catalog.MIXERS.values())).flatmap(parts)


@given(mixer=MIXERS)
@settings(max_examples=150)
def test_what_is_written_reads_back(mixer: Mixer) -> None:
    text = format_mixer(mixer)
    assert parse(text) == mixer
    assert format_mixer(mixer) == canonical(text) == text


@given(mixer=MIXERS, spaces=st.lists(st.sampled_from(["", " ", "  "]), min_size=80, max_size=80))
def test_spaces_mean_nothing(mixer: Mixer, spaces: list[str]) -> None:
    tokens = re.findall(r"[\w.]+|[()+,=]", format_mixer(mixer))
    text = "".join(space + token for space, token in zip(spaces * 10, tokens, strict=False)) + " "
    assert parse(text) == mixer


@given(mixer=mixtures())
def test_full_names_stand_for_labels(mixer: Attention) -> None:
    by_label = {cls.label: name for name, cls in catalog.COMPONENTS.items() if cls.label}
    full = re.sub(r"\b[A-Z]\w*", lambda match: by_label[match[0]], format_mixer(mixer))
    assert parse(full) == mixer


TOKENS = st.sampled_from(
    [*catalog.known(), *"VRD", "FR", "FD", "Fix", "X", *"()+,=+()", "rank", "bias", "mixing", "sum",
     "true", "none", "1", "-1", "1.5", "1e400", '"', "'", "'sum'", " ", "\t", "é", "\x00"]
)  # fmt: skip


@given(text=st.lists(TOKENS, max_size=12).map("".join) | st.text(max_size=20))
@example("FR(rank=999999999999999999999)")
@settings(max_examples=200)
def test_any_text_is_a_variant_or_a_named_mistake(text: str) -> None:
    try:
        mixer = parse(text)
    except (NotationError, UnknownNameError):
        return
    assert parse(format_mixer(mixer)) == mixer


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_canonical_form_stays_as_it_is(variant: str) -> None:
    assert canonical(canonical(variant)) == canonical(variant)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("dot_product", "V"),
        ("(V)", "V"),
        ("V ( bias = true )", "V(bias=true)"),
        ("(V)(bias=true)", "V(bias=true)"),
        ("R(bias=true)+V", "(R+V)(bias=true)"),
        ("R(mixing=sum)+V(mixing=sum, bias=true)", "(R+V)(mixing=sum, bias=true)"),
        ("V(mixing=layer)", "V"),  # one component has no weights
        ("FR(rank=8)+V", "FR+V"),
        ('D(sharing="heads")', "D(sharing=heads)"),
        ("D(tie_query=True)+V", "D(tie_query=true)+V"),
        ("FD(a=None)", "FD"),
        ("linformer(sharing=none)", "linformer"),
        ("linformer(sharing='none')", "linformer"),
        ("Linformer(rank=32)", "linformer"),
        ("LightConv(width=7)", "light_conv(width=7)"),
        ("DynamicConv", "dynamic_conv"),
    ],
)
def test_one_variant_has_one_form(text: str, form: str) -> None:
    assert canonical(text) == form


MALFORMED = {
    "": "expected the name of a mixer, got 'the end' at character 1",
    "   ": "expected the name of a mixer, got 'the end' at character 1",
    "V+": "expected the name of a mixer, got 'the end' at character 3",
    "+V": r"expected the name of a mixer, got '\+' at character 1",
    "V++R": r"expected the name of a mixer, got '\+' at character 3",
    "V R": r"expected '\+' or the end, got 'R' at character 3",
    "V)": r"expected '\+' or the end, got '\)' at character 2",
    "V,R": r"expected '\+' or the end, got ',' at character 2",
    "(V": r"expected '\)' or '\+', got 'the end' at character 3",
    "(V+R)R": "expected the end, got 'R' at character 6",
    "((V))": r"expected the name of a mixer, got '\(' at character 2",
    "V + R!": "'!' is unexpected at character 6",
    "V + $": r"'\$' is unexpected at character 5",
    "D(sharing='full)": '"\'" opens a quote that is not closed at character 11',
    "FR(": "expected an option like rank=32, got 'the end' at character 4",
    "FR(8)": "expected an option like rank=32, got '8' at character 4",
    "FR(rank)": r"expected '=', got '\)' at character 8",
    "FR(rank=)": r"expected a value, got '\)' at character 9",
    "FR(rank=8": r"expected ',' or '\)', got 'the end' at character 10",
    "FR(,)": "expected an option like rank=32, got ',' at character 4",
    "FR(rank=8,)": r"expected an option like rank=32, got '\)' at character 11",
    "FR(rank=1e400)": "'1e400' is no finite number at character 9",
    f"FR(rank={'9' * 5000})": "a number of 5000 digits is too long at character 9",
    "FR(rank=8 16)": r"expected ',' or '\)', got '16' at character 11",
    "FR(rank=8, rank=16)": "option 'rank' is given twice at character 17",
    "FR(rank=1.5)": "rank=1.5 is of type float; expected int, like rank=8",
    "FR(rank=eight)": "rank='eight' is of type str; expected int",
    "FR(rank=true)": "rank=True is of type bool; expected int",
    "FR(rank=0)": "rank is 0; use an integer of at least 1",
    "FD(a=-2)": "a is -2; use an integer of at least 1",
    "FD(a=many)": "a is 'many'; use an integer of at least 1",
    "D(tie_query=1)": "tie_query=1 is of type int; expected bool, like tie_query=false",
    "D(sharing=all)": "sharing is 'all'; use one of per_head, heads, full",
    "D(sharing=full, tie_query=true)+V": "use sharing per_head or heads",
    "(R+V)(mixing=mean)": "mixing is 'mean'; use one of softmax, layer, sum",
    "(R+V)(rank=3)": "a mixture has no option 'rank'. Known: mixing, bias",
    "R(bias=true)+V(bias=false)": "bias is given as True and as False",
    "V+V": r"dot_product stands twice in the mixture dot_product\+dot_product",
    "V+linformer": "linformer is a whole mixer and cannot stand in a sum; these can: V, R, Fix",
    "(linformer)(bias=true)": "bias belongs to a mixture, and linformer is none",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_variant_is_explained(text: str) -> None:
    with pytest.raises(NotationError, match=MALFORMED[text]):
        parse(text)


UNKNOWN = {
    "lin_former": "mixer 'lin_former' not known. Did you mean linformer?",
    "v": "mixer 'v' not known. Did you mean V?",
    "FR+densee": "mixer 'densee' not known. Did you mean dense?",
    "zzzzzz": "mixer 'zzzzzz' not known. Known: D, FD, FR, Fix, R, V, ",
    "attention": "mixer 'attention' not known.",
    "FR(rnak=8)": "option of FR 'rnak' not known. Did you mean rank? Known: bias, mixing, rank",
    "linformer(heads=3)": "option of linformer 'heads' not known.",
    "V(rank=3)": "option of V 'rank' not known. Known: bias, mixing",
}


@given(text=st.text("V(+", min_size=1000, max_size=3000) | st.integers(200, 900).map("x".__mul__))
@settings(max_examples=50)
@example("V+" * 2000)
@example("FR(" + "rank=8," * 1000)
@example("D(sharing=" + "s" * 4000 + ")")
@example("(V)(" + "m" * 4000 + "=1)")
@example("+".join(["V"] * 2000))
def test_a_long_variant_is_not_repeated_whole(text: str) -> None:
    with pytest.raises((NotationError, UnknownNameError)) as caught:
        parse(text)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_name_meets_near_ones(text: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(UNKNOWN[text])):
        parse(text)


def test_what_cannot_be_built_is_refused_with_what_fits() -> None:
    sizes = Sizes.of(d_model=16, heads=4, max_len=12)
    for text, kind, message in (
        ("D(tie_query=true)", NotationError, r"no V in D; write D\(tie_query=true\)\+V"),
        (
            "FD(a=5)",
            ShapeError,
            "do not multiply to max_len 12; use a pair of 1 x 12, 2 x 6, 3 x 4",
        ),
        ("FD(a=2, b=5)", ShapeError, "a 2 and b 5 do not multiply to max_len 12"),
    ):
        with pytest.raises(kind, match=message):
            parse(text).check(sizes)
    with pytest.raises(ShapeError, match="splits its input by heads"):
        parse("glu").check(Sizes.of(d_model=16, heads=4, max_len=12, head_dim=5))
    with pytest.raises(
        ShapeError, match="16 is not divisible by heads 3; use heads in 1, 2, 4, 8, 16"
    ):
        Sizes.of(d_model=16, heads=3, max_len=12)
    with pytest.raises(ShapeError, match="max_len is 0; it must be at least 1"):
        Sizes.of(d_model=16, heads=4, max_len=0)


@pytest.mark.usefixtures("registry")
@given(word=st.text(max_size=10))
@example("true")
@example("none")
@example("12")
@example(" space")
@example("it's")
@example('"')
@example("\"'")
def test_a_plugins_options_read_back_too(word: str) -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Optional(Mixer):
        name = "optional"

        rate: float = 0.5
        word: str = "plain"

        def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
            return {}

        def torch(self, sizes: Sizes) -> Any:
            return None

    register(Optional)
    assert canonical("optional(rate=2)") == canonical("optional(rate=2.0)") == "optional(rate=2.0)"
    assert canonical("optional(rate=2)") == format_mixer(Optional(rate=2.0))
    with pytest.raises(NotationError, match=r"rate=1000.*is too large for a decimal"):
        parse(f"optional(rate=1{400 * '0'})")
    assert parse("optional(rate=-1e-3)") == Optional(rate=-1e-3)
    try:
        text = format_mixer(Optional(word=word))
    except SynthbenchError:
        assert '"' in word
        assert "'" in word
    else:
        assert parse(text) == Optional(word=word)


@pytest.mark.usefixtures("registry")
@given(
    rate=st.floats(allow_nan=False, allow_infinity=False),
    word=st.none() | st.text("none", max_size=4),
)
@example(1e16, "none")
@example(-1e-300, None)
def test_none_means_nothing_only_where_it_may(rate: float, word: str | None) -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Numbered(Mixer):
        name = "numbered"

        rate: float = 0.5
        word: str | None = "plain"
        text: str = "plain"

        def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
            return {}

        def torch(self, sizes: Sizes) -> Any:
            return None

    register(Numbered)
    assert parse("numbered(word=none, text=none)") == Numbered(word=None, text="none")
    assert parse("numbered(word='none', text='none')") == Numbered(word="none", text="none")
    mixer = Numbered(rate=rate, word=word)
    assert parse(format_mixer(mixer)) == mixer
    with pytest.raises(UnknownNameError, match="Known: rate, text, word"):
        parse("numbered(x=1)")


@pytest.mark.usefixtures("registry")
def test_a_mixer_without_options_says_so() -> None:
    class Bare(Mixer):
        name = "bare"

        def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
            return {}

        def torch(self, sizes: Sizes) -> Any:
            return None

    register(Bare)
    with pytest.raises(UnknownNameError, match=r"option of bare 'x' not known\. None is known"):
        parse("bare(x=1)")


@pytest.mark.parametrize("components", [(), [catalog.COMPONENTS["random"]()], (3,), None])
def test_what_is_no_mixture_is_refused(components: Any) -> None:
    with pytest.raises(NotationError, match=r"write (it|the mixture) in notation, like R\+V"):
        Attention(components)


def test_every_component_is_covered_above() -> None:
    names = {f.name for cls in (*catalog.CATALOG.values(), Attention) for f in fields(cls)}
    assert names <= {*CHOICES, "sharing", "components"}
    assert all(issubclass(cls, Component) for cls in catalog.COMPONENTS.values())


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("rate=fast", "'fast' is of type str; expected float, like rate=0.5"),
        ("rate='0.5'", "'0.5' is of type str; expected float, like rate=0.5"),
        ("rate=none", "'none' is of type str; expected float"),
        ("rate=true", "True is of type bool; expected float"),
        ("count=1.0", "1.0 is of type float; expected int, like count=3"),
        ("count=true", "True is of type bool; expected int"),
        ("count=two", "'two' is of type str; expected int"),
        ("flag=1", "1 is of type int; expected bool, like flag=true"),
        ("flag=yes", "'yes' is of type str; expected bool"),
        ("text=1", "1 is of type int; expected str, like text=plain"),
        ("text=1.5", "1.5 is of type float; expected str"),
        ("text=false", "False is of type bool; expected str"),
    ],
)
def test_an_option_takes_only_values_of_the_type_of_its_default(option: str, given: str) -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Typed(Mixer):
        name = "typed"

        rate: float = 0.5
        count: int = 3
        flag: bool = True
        text: str = "plain"
        free: Any = None

        def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
            return {}

        def torch(self, sizes: Sizes) -> Any:
            return None

    register(Typed)
    with pytest.raises(NotationError, match=re.escape(given)):
        parse(f"typed({option})")
    assert parse("typed(rate=2, count=-1, flag=false, text='1', free=1.5)") == Typed(
        2, -1, False, "1", 1.5
    )
    assert parse("typed(free=none)") == parse("typed(free=NULL)") == Typed()
    assert parse("typed(free='none')") == Typed(free="none")


@pytest.mark.parametrize(("length", "whole"), [(90, True), (121, False)])
def test_only_a_long_variant_is_shown_in_part(length: int, whole: bool) -> None:
    text = "V+" + "!" * (length - 2)
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert (text in str(caught.value)) == whole
