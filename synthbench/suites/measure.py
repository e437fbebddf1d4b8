"""How each cell of a suite is measured, in how many rounds, and how much it may use."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag, model_validator
from pydantic_core import PydanticCustomError

from synthbench.suites.cell import Count
from synthbench.suites.section import Section, Share

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rounds = Annotated[int, Field(ge=1, le=10_000)]
# In errors of pydantic: which of the two kinds of `rounds` was meant.
NUMBER_TAG, SECTION_TAG = "<number>", "<section>"
Gigabytes = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Paired = Literal[True, False, "form"]


class RoundsUntil(Section):
    """Rounds of the whole plan, then further rounds of what is undecided."""

    at_least: Rounds = Field(default=2, description="Rounds of the whole plan.", examples=[3])
    at_most: Rounds = Field(
        default=12,
        description="Rounds of a variant whose comparison with the baseline stays undecided.",
        examples=[8],
    )
    until: Literal["decided"] = Field(
        default="decided",
        description="Rounds are added to variants without a verdict other than `undecided`, to "
        "their A/A twin, and to their baseline where it is not timed in their processes.",
        examples=["decided"],
    )

    @property
    def looks(self) -> int:
        """How often verdicts may be asked for while rounds are added."""
        return self.at_most - self.at_least + 1

    @model_validator(mode="after")
    def _in_order(self) -> RoundsUntil:
        if self.at_most < self.at_least:
            raise PydanticCustomError(
                "rounds",
                "at_most of at least {at_least}, its at_least",
                {"at_least": self.at_least},
            )
        return self


def _number_or_section(value: Any) -> str:
    return SECTION_TAG if isinstance(value, dict | RoundsUntil) else NUMBER_TAG


class Measure(Section):
    """How each cell is measured, and how much time and memory it may use."""

    rounds: Annotated[
        Annotated[Rounds, Tag(NUMBER_TAG)] | Annotated[RoundsUntil, Tag(SECTION_TAG)],
        Discriminator(_number_or_section),
    ] = Field(
        default=1,
        description="Times that the whole plan is measured, each time in another order and with "
        "new processes. Ratios are taken within a round. A section: as many as it takes, see "
        "below.",
        examples=[3],
    )
    machines: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="Machines of one kind that the rounds of a cell are spread over. Ratios are "
        "taken within a round, on one machine, and their intervals include how machines differ. At "
        "most as many as rounds.",
        examples=[1],
    )
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="After so many minutes of one call of `run`, no further round is added for "
        "undecided comparisons; `--resume` starts the time anew; null: no limit. The rounds of the "
        "whole plan are always measured.",
        examples=[20.0],
    )
    retries: NonNegativeInt = Field(
        default=0,
        description="How often a disturbed cell is measured again, at most (all calls with "
        "`--resume` together), each time after waiting for a quiet machine. Cells of undecided "
        "comparisons come before rounds are added, the others at the end.",
        examples=[3],
    )
    aa: bool | None = Field(
        default=None,
        description="Measure the baseline twice in each group (A/A twins), which gives the noise "
        "floor; null: from 2 rounds on.",
        examples=[True],
    )
    paired: Paired = Field(
        default=True,
        description="Time the baseline in the process of each other cell as well, in turn with its "
        "steps, and take the ratio within the process; CPU only. `form`: beside each cell in "
        "another form, the reference form of the same variant instead.",
        examples=[False],
    )
    min_samples: PositiveInt = Field(
        default=10,
        description="Steady-state steps of a cell, at least, if `max_seconds` suffices for them; "
        "there is at least one, and no cell has more than 1000.",
        examples=[20],
    )
    min_seconds: Seconds = Field(
        default=0.5,
        description="Seconds of steady state, at least, if `max_seconds` suffices for them after "
        "the warm-up, and unless 1000 steps take less. Not more than `max_seconds`.",
        examples=[1.0],
    )
    max_seconds: Seconds = Field(
        default=10.0,
        description="Seconds of warm-up and steady state together, at most; no step begins after "
        "them, also where there are fewer than `min_samples`. No step of the warm-up begins after "
        "a quarter of them. The baseline beside a cell (`paired`) takes as long again.",
        examples=[20.0],
    )
    precision: Share | None = Field(
        default=None,
        description="Take samples until the 95% interval of the median is within this share of it, "
        "at most `max_seconds`; null: stop at `min_samples` and `min_seconds`.",
        examples=[0.02],
    )
    timeout_seconds: Seconds = Field(
        default=300.0,
        description="Seconds of a whole cell, from the start of its process, at most.",
        examples=[120.0],
    )
    memory_limit_gb: Gigabytes | None = Field(
        default=None,
        description="Memory of a cell in GB, CPU only; null: 90% of what is available.",
        examples=[8.0],
    )
    threads: PositiveInt | None = Field(
        default=None, description="Threads of a cell; null: one per usable core.", examples=[4]
    )
    parity: bool = Field(
        default=True,
        description="Compare each variant with its reference before it is timed.",
        examples=[False],
    )
    parity_again: bool = Field(
        default=False,
        description="Also make the checks of parity that passed in an earlier run on this machine, "
        "with the same code of synthbench, versions and kernels. Runs with plug-ins always do.",
        examples=[True],
    )
    compile_again: bool = Field(
        default=False,
        description="Also compile the programs that an earlier run has kept, of JAX on a CPU of "
        "this machine, with the same code of synthbench, versions and kernels. Runs with plug-ins "
        "always do.",
        examples=[True],
    )
    force: bool = Field(
        default=False,
        description="Also run cells that are predicted not to fit into memory.",
        examples=[True],
    )
    kernel_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Seconds to choose kernels in, by timing those that each mixer declares, at "
        "the shapes that have no choice from an earlier run on this machine; 0: do not measure, "
        "use the kernel that needs no measurement.",
        examples=[0],
    )
    ceiling: bool = Field(
        default=True,
        description="Measure the fastest matrix product and copy of the device before the cells.",
        examples=[False],
    )
    seed: Count = Field(
        default=0,
        description="Draws start values, batches and the order of the cells.",
        examples=[1],
    )

    @model_validator(mode="after")
    def _a_round_per_machine(self) -> Measure:
        if self.machines > self.least_rounds:
            raise PydanticCustomError(
                "machines",
                "at most {rounds} machines, one per round; give more rounds, or fewer machines",
                {
                    "keys": ["machines", "rounds"],
                    "got": self.machines,
                    "rounds": self.least_rounds,
                },
            )
        return self

    @model_validator(mode="after")
    def _enough_seconds(self) -> Measure:
        if self.min_seconds > self.max_seconds:
            values = {"min_seconds": self.min_seconds, "max_seconds": self.max_seconds}
            least, most = (
                "" if name in self.model_fields_set else f" ({value:g} is its default)"
                for name, value in values.items()
            )
            raise PydanticCustomError(
                "seconds",
                "at most {seconds}, which is max_seconds and includes warm-up; give a smaller "
                "min_seconds{least}, or a larger max_seconds{most}",
                {
                    "keys": [*values],
                    "got": self.min_seconds,
                    "seconds": f"{self.max_seconds:g}",
                    "least": least,
                    "most": most,
                },
            )
        return self

    @property
    def has_twins(self) -> bool:
        """Whether each group contains the A/A twin of its baseline."""
        return self.least_rounds > 1 if self.aa is None else self.aa

    @property
    def least_rounds(self) -> int:
        """Rounds of the whole plan."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds.at_least

    @property
    def most_rounds(self) -> int:
        """Rounds of a cell, at most."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds.at_most
